#include "answer.h"
#include "attention.h"
#include "mha_fwd.h"
#include "refusal.h"
#include "words.h"

namespace aiter {
namespace {

using calls::Call;
using calls::refuse;

constexpr int most_splits = 128;

struct Traits {
  const std::string& data_type;
  bool varlen;
  mask_enum mask_type;
  bias_enum bias_type;
  bool has_lse, has_sink;
};

void require_supported(const mha_fwd_splitkv_args& a, const Traits& traits) {
  if (a.block_table_ptr != nullptr || a.cache_batch_idx != nullptr) {
    refuse(
        TE_REGARD_REFUSED,
        "block_table_ptr and cache_batch_idx ask for a cache, for which there are no kernels yet; gather its "
        "rows and leave both null");
  }
  if (a.scale_p != 1 || a.scale_o != 1)
    refuse(TE_REGARD_REFUSED, "scale_p and scale_o are for static 8-bit scales, which are not taken; give 1");
  if (a.num_splits < 1 || a.num_splits > most_splits) {
    refuse(TE_REGARD_INVALID, "num_splits=" + std::to_string(a.num_splits) + " is not a number from 1 to " +
                                  std::to_string(most_splits));
  }
  if (a.mask_type != static_cast<int>(traits.mask_type))
    refuse(TE_REGARD_INVALID, "the argument mask_type and the struct's are different masks");
  if (!traits.has_sink && a.sink_ptr != nullptr)
    refuse(TE_REGARD_INVALID, "has_sink is false beside sink_ptr, which would be dropped; set it");
  if (traits.has_lse && a.lse_ptr == nullptr) refuse(TE_REGARD_INVALID, "has_lse needs lse_ptr");
}

Work forward(const mha_fwd_splitkv_args& a, const Traits& traits, void* stream) {
  require_supported(a, traits);
  const Attention attention{traits.data_type,
                            a.batch,
                            a.nhead_q,
                            a.nhead_k,
                            a.hdim_q,
                            a.hdim_v,
                            a.scale_s,
                            a.logits_soft_cap,
                            a.mask_type,
                            a.window_size_left,
                            a.window_size_right,
                            traits.has_sink ? a.sink_size : 0,
                            static_cast<int>(traits.bias_type),
                            a.bias_ptr,
                            a.stride_bias,
                            a.nhead_stride_bias,
                            a.batch_stride_bias,
                            traits.varlen,
                            Sequences({'q', a.seqstart_q_ptr, nullptr, nullptr, a.seqlen_q, a.max_seqlen_q},
                                      traits.varlen, a.batch, stream),
                            Sequences({'k', a.seqstart_k_ptr, a.seqlen_k_ptr, nullptr, a.seqlen_k},
                                      traits.varlen, a.batch, stream)};
  const std::string words = calls::word("splits", std::int64_t{a.num_splits}) + (a.sink_ptr ? " sink" : "") +
                            (traits.has_lse ? " lse" : "");
  Call call(attention.text("fwd", words), stream);
  attention.q.set_tokens(call, TE_REGARD_Q, a.q_ptr, a.stride_q, a.nhead_stride_q, a.batch_stride_q);
  attention.k.set_tokens(call, TE_REGARD_K, a.k_ptr, a.stride_k, a.nhead_stride_k, a.batch_stride_k);
  attention.k.set_tokens(call, TE_REGARD_V, a.v_ptr, a.stride_v, a.nhead_stride_v, a.batch_stride_v);
  attention.q.set_tokens(call, TE_REGARD_O, a.o_ptr, a.stride_o, a.nhead_stride_o, a.batch_stride_o);
  attention.set_sequences(call);
  attention.set_bias(call, stream);
  if (traits.has_lse && traits.varlen) call.set(TE_REGARD_LSE, a.lse_ptr, {a.nhead_stride_lse});
  if (traits.has_lse && !traits.varlen)
    call.set(TE_REGARD_LSE, a.lse_ptr, {a.batch_stride_lse, a.nhead_stride_lse});
  if (a.sink_ptr != nullptr) call.set(TE_REGARD_SINK, a.sink_ptr);
  return {{call}};
}

}  // namespace

float mha_fwd_splitkv(mha_fwd_splitkv_args args, const ck_tile::stream_config& stream_config,
                      std::string q_dtype_str, bool is_group_mode, mask_enum mask_type, bias_enum bias_type,
                      bool has_lse, bool has_sink) {
  const Traits traits{q_dtype_str, is_group_mode, mask_type, bias_type, has_lse, has_sink};
  return answer(stream_config, [&] { return forward(args, traits, stream_config.stream_id_); });
}

}  // namespace aiter
