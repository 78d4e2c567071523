// AITER's backward writes dK and dV for every query head, and its callers sum those of a group. Regard sums
// them itself, so with grouped heads there is one call per key/value head, in which every query head has a
// key head: the same one, through a stride of 0.
#include "mha_bwd.h"

#include <cmath>
#include <cstring>

#include "answer.h"
#include "attention.h"
#include "lengths.h"
#include "refusal.h"

namespace aiter {
namespace {

using calls::Call;
using calls::refuse;

void require_supported(const mha_bwd_args& a) {
  require_no_check(a.v3_api_check);
  if (a.is_store_randval) {
    refuse(TE_REGARD_REFUSED,
           "is_store_randval asks for the random numbers of AITER's dropout, which draws others");
  }
  if (a.data_type.substr(0, 3) == "fp8")
    refuse(TE_REGARD_REFUSED, "data_type '" + a.data_type + "' has no gradients; give fp32, fp16 or bf16");
  if (!a.has_dropout && a.p_drop != 0)
    refuse(TE_REGARD_INVALID, "has_dropout is false beside p_drop, which would be dropped; set it");
  if (a.p_drop != 0 && !(std::fabs(a.p_undrop - (1 - a.p_drop)) < 1e-6f))
    refuse(TE_REGARD_INVALID, "p_undrop is not 1 - p_drop");
  if (!a.is_group_mode && (a.seqlen_q_ptr != nullptr || a.seqlen_k_ptr != nullptr))
    refuse(TE_REGARD_INVALID,
           "seqlen_q_ptr and seqlen_k_ptr are for group mode; dense sequences have cu_seqlen");
  if (a.nhead_k < 1 || a.nhead_q < 1 || a.nhead_q % a.nhead_k != 0) {
    refuse(TE_REGARD_INVALID, "nhead_q=" + std::to_string(a.nhead_q) +
                                  " is not a multiple of nhead_k=" + std::to_string(a.nhead_k));
  }
  if (a.p_drop != 0 && a.nhead_k != 1 && a.nhead_q != a.nhead_k) {
    refuse(
        TE_REGARD_REFUSED,
        "dropout with grouped heads is not taken in backward, as dK and dV of every query head are computed "
        "group by group, and a head's dropout depends on its number; give nhead_k = 1, or nhead_q");
  }
  if (a.has_dbias && (a.bias_type != static_cast<int>(bias_enum::elementwise_bias) || a.dbias_ptr == nullptr))
    refuse(TE_REGARD_INVALID, "has_dbias needs dbias_ptr and an elementwise bias");
  if (a.d_sink_ptr != nullptr && a.sink_ptr == nullptr)
    refuse(TE_REGARD_INVALID,
           "d_sink_ptr asks for the gradient of sinks that are not there; give sink_ptr too");
}

/// Sinks are [batch, nhead_q] in AITER's backward and [nhead_q] in Regard, so all batches must have the same.
void require_shared_sinks(const mha_bwd_args& a, void* stream) {
  if (a.sink_ptr == nullptr || a.batch < 2) return;
  const auto heads = static_cast<std::uint64_t>(a.nhead_q);
  const auto sinks = calls::host_copy(a.sink_ptr, heads * static_cast<std::uint64_t>(a.batch), stream);
  for (std::size_t i = heads; i < sinks.size(); ++i) {
    if (sinks[i] != sinks[i - heads]) {
      refuse(TE_REGARD_REFUSED,
             "sink_ptr has other sinks for one sequence than for another; give all sequences the same");
    }
  }
}

/// The address of an element; null stays null.
const void* at(const void* data, std::int64_t element, std::int64_t bytes) {
  return data == nullptr ? nullptr : static_cast<const char*>(data) + element * bytes;
}

/// The query heads of one call, and the stride between their key heads.
struct Heads {
  std::int64_t first, count, first_k, stride_k, stride_v;
};

Call backward(const mha_bwd_args& a, const Attention& attention, const Heads& heads, void* stream) {
  const std::string words = std::string(a.has_dbias ? " dbias" : "") + (a.sink_ptr ? " sink" : "") +
                            (a.is_deterministic ? " deterministic" : "") + dropout_words(a.p_drop);
  Call call(attention.text("bwd", words), stream);
  const std::int64_t bytes = attention.element_bytes();
  const Sequences &q = attention.q, &k = attention.k;
  const auto of_queries = [&](te_regard_role role, const void* data, int row, int head, int batch) {
    q.set_tokens(call, role, at(data, heads.first * head, bytes), row, head, batch);
  };
  const auto of_keys = [&](te_regard_role role, const void* data, int row, int head, int batch) {
    k.set_tokens(call, role, at(data, heads.first * head, bytes), row, head, batch);
  };
  of_queries(TE_REGARD_Q, a.q_ptr, a.stride_q, a.nhead_stride_q, a.batch_stride_q);
  of_queries(TE_REGARD_O, a.o_ptr, a.stride_o, a.nhead_stride_o, a.batch_stride_o);
  of_queries(TE_REGARD_GRAD_O, a.do_ptr, a.stride_do, a.nhead_stride_do, a.batch_stride_do);
  of_queries(TE_REGARD_GRAD_Q, a.dq_ptr, a.stride_dq, a.nhead_stride_dq, a.batch_stride_dq);
  of_keys(TE_REGARD_GRAD_K, a.dk_ptr, a.stride_dk, a.nhead_stride_dk, a.batch_stride_dk);
  of_keys(TE_REGARD_GRAD_V, a.dv_ptr, a.stride_dv, a.nhead_stride_dv, a.batch_stride_dv);
  k.set_tokens(call, TE_REGARD_K, at(a.k_ptr, heads.first_k * a.nhead_stride_k, bytes), a.stride_k,
               heads.stride_k, a.batch_stride_k);
  k.set_tokens(call, TE_REGARD_V, at(a.v_ptr, heads.first_k * a.nhead_stride_v, bytes), a.stride_v,
               heads.stride_v, a.batch_stride_v);
  const void* lse = at(a.lse_ptr, heads.first * a.nhead_stride_lsed, sizeof(float));
  if (a.is_group_mode) {
    call.set(TE_REGARD_LSE, lse, {a.nhead_stride_lsed});
  } else {
    call.set(TE_REGARD_LSE, lse, {a.batch_stride_lsed, a.nhead_stride_lsed});
  }
  attention.set_sequences(call);
  attention.set_bias(call, stream, heads.first);
  if (a.has_dbias) {
    call.set(TE_REGARD_GRAD_BIAS, at(a.dbias_ptr, heads.first * a.nhead_stride_dbias, bytes),
             {a.batch_stride_dbias, a.nhead_stride_dbias, a.stride_dbias});
  }
  if (a.sink_ptr != nullptr) {
    call.set(TE_REGARD_SINK, at(a.sink_ptr, heads.first, sizeof(float)));
    call.set_own(TE_REGARD_GRAD_SINK, std::vector<std::int32_t>(static_cast<std::size_t>(heads.count)));
  }
  set_seed(call, a.p_drop, a.drop_seed_offset);
  return call;
}

/// Computes the gradient of sinks in separate memory, then adds it to the caller's.
void collect_sinks(Work& work, const mha_bwd_args& a, std::int64_t heads) {
  const auto bytes = static_cast<std::int64_t>(sizeof(float)) * a.nhead_q;
  const std::shared_ptr<void> memory = work.calls.front().allocate(bytes);
  for (std::size_t i = 0; i < work.calls.size(); ++i) {
    work.calls[i].set_own(TE_REGARD_GRAD_SINK, {});
    work.calls[i].set(TE_REGARD_GRAD_SINK,
                      at(memory.get(), static_cast<std::int64_t>(i) * heads, sizeof(float)));
  }
  work.afterwards = [memory, bytes, last = work.calls.back(), to = a.d_sink_ptr, count = a.nhead_q] {
    last.wait();
    std::vector<float> gradient(static_cast<std::size_t>(count)), sum(gradient.size());
    calls::require(te_regard_memory_copy(gradient.data(), memory.get(), bytes));
    calls::require(te_regard_memory_copy(sum.data(), to, bytes));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    calls::require(te_regard_memory_copy(to, sum.data(), bytes));
  };
}

Work backward(const mha_bwd_args& a, void* stream) {
  require_supported(a);
  require_shared_sinks(a, stream);
  const bool grouped = a.nhead_q != a.nhead_k;
  const std::int64_t count = grouped ? a.nhead_q / a.nhead_k : a.nhead_q;
  const Attention attention{
      a.data_type,
      a.batch,
      count,
      count,
      a.hdim_q,
      a.hdim_v,
      a.scale,
      0,
      a.mask_type,
      a.window_size_left,
      a.window_size_right,
      0,
      a.bias_type,
      a.bias_ptr,
      a.stride_bias,
      a.nhead_stride_bias,
      a.batch_stride_bias,
      a.is_group_mode,
      Sequences({'q', a.seqstart_q_ptr, a.seqlen_q_ptr, a.cu_seqlen_q_ptr, a.seqlen_q, a.max_seqlen_q},
                a.is_group_mode, a.batch, stream),
      Sequences({'k', a.seqstart_k_ptr, a.seqlen_k_ptr, a.cu_seqlen_k_ptr, a.seqlen_k, a.max_seqlen_k},
                a.is_group_mode, a.batch, stream)};
  Work work;
  for (std::int64_t i = 0; i < (grouped ? a.nhead_k : 1); ++i) {
    const Heads heads{i * count, count, i, grouped ? 0 : a.nhead_stride_k, grouped ? 0 : a.nhead_stride_v};
    work.calls.push_back(backward(a, attention, heads, stream));
  }
  if (a.d_sink_ptr != nullptr) collect_sinks(work, a, count);
  return work;
}

}  // namespace

float mha_bwd(mha_bwd_args args, const ck_tile::stream_config& stream_config) {
  return answer(stream_config, [&] { return backward(args, stream_config.stream_id_); });
}

}  // namespace aiter
