// The functions that take structs; those with argument lists call these. Arguments that only AITER's kernels
// need are ignored: the choice of assembly kernels and their rounding, and memory for sums of dQ and for dK,
// dV and the bias gradient of every query head.
#include "ck_fused_attn/ck_fused_attn.hpp"

#include <algorithm>
#include <vector>

#include "call.h"
#include "lengths.h"
#include "plans.h"
#include "problem_text.h"
#include "refusal.h"
#include "words.h"

namespace ck_fused_attn {
namespace {

using calls::Call;
using calls::refuse;

std::int64_t number(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

/// Sets the seed and the offset after it, which are adjacent in TransformerEngine's rng_state.
void set_seed(Call& call, const CKAttnCommonArgs& args, float dropout) {
  if (dropout != 0)
    call.set(TE_REGARD_SEED, calls::adjacent_seed(args.philox_seed_ptr, args.philox_offset_ptr));
}

std::string sink_words(const CKAttnCommonArgs& args) {
  if (args.sink_size != 0) {
    refuse(TE_REGARD_REFUSED,
           "sink_size=" + std::to_string(args.sink_size) +
               " asks for first keys that stay visible, which TransformerEngine's masks do "
               "not have; give 0, and sink_ptr for learned sinks");
  }
  if (args.has_sink != (args.sink_ptr != nullptr))
    refuse(TE_REGARD_INVALID, "has_sink and sink_ptr do not go together; give both, or neither");
  return args.has_sink ? " sink" : "";
}

/// The offsets of packed sequences in memory, and the cumulative sums of their logical lengths, which differ
/// if the sequences are padded.
struct Packed {
  const void* offsets;  // start of each sequence
  const void* sums;     // of the logical lengths

  Packed(const void* cu_seqlen, const void* cu_seqlen_padded)
      : offsets(cu_seqlen_padded == nullptr ? cu_seqlen : cu_seqlen_padded), sums(cu_seqlen) {}

  bool padded() const { return offsets != sums; }
};

/// The words of packed sequences or of a bias (packed sequences have none) and, once there is a plan, their
/// tensors.
class Sequences {
 public:
  explicit Sequences(const CKAttnCommonArgs& args)
      : args_(args),
        q_(args.cu_seqlen_q_ptr, args.cu_seqlen_q_padded_ptr),
        k_(args.cu_seqlen_kv_ptr, args.cu_seqlen_kv_padded_ptr) {
    const bool one_sided =
        args.cu_seqlen_kv_ptr || args.cu_seqlen_q_padded_ptr || args.cu_seqlen_kv_padded_ptr;
    if (!args.is_group_mode() && one_sided)
      refuse(TE_REGARD_INVALID, "cumulative lengths without cu_seqlen_q; packed sequences need both");
    if (args.is_group_mode() && args.attn_bias_type != no_bias)
      refuse(TE_REGARD_REFUSED, "packed sequences take no bias here; give no_bias, or dense tensors");
  }

  /// The number of tokens of K and V if no argument gives it: they end with the last sequence.
  std::int64_t tokens_k(void* stream) const {
    if (!args_.is_group_mode()) return 0;
    if (q_.offsets == k_.offsets) return number(args_.max_tokens_q);
    return calls::host_copy(k_.offsets, args_.b + 1, stream).back();
  }

  std::string words(std::int64_t tokens_k) const {
    if (!args_.is_group_mode()) return bias_words(args_);
    return std::string(" varlen") + (q_.padded() || k_.padded() ? " lengths" : "") +
           calls::word("tq", number(args_.max_tokens_q)) + calls::word("tk", tokens_k);
  }

  void set(Call& call, void* stream) const {
    if (args_.attn_bias_type == elementwise_bias) call.set(TE_REGARD_BIAS, args_.bias_ptr);
    if (args_.attn_bias_type == alibi) call.set(TE_REGARD_ALIBI, args_.alibi_slope_ptr);
    if (!args_.is_group_mode()) return;
    call.set(TE_REGARD_OFFSETS_Q, q_.offsets).set(TE_REGARD_OFFSETS_K, k_.offsets);
    if (q_.padded()) call.set_own(TE_REGARD_LENGTHS_Q, calls::lengths_of(q_.sums, args_.b, stream));
    if (k_.padded()) call.set_own(TE_REGARD_LENGTHS_K, calls::lengths_of(k_.sums, args_.b, stream));
  }

  /// Sets a tensor of tokens, which has no batch dimension if sequences are packed.
  void set_tokens(Call& call, te_regard_role role, const void* data, std::uint64_t batch, std::uint64_t row,
                  std::uint64_t head) const {
    if (args_.is_group_mode()) {
      call.set(role, data, {number(row), number(head)});
    } else {
      call.set(role, data, {number(batch), number(row), number(head)});
    }
  }

 private:
  const CKAttnCommonArgs& args_;
  Packed q_, k_;
};

void set_inputs(Call& call, const CKAttnCommonArgs& args, const Sequences& sequences, float dropout,
                void* stream) {
  sequences.set_tokens(call, TE_REGARD_Q, args.q_ptr, args.stride_b_q, args.stride_s_q, args.stride_h_q);
  sequences.set_tokens(call, TE_REGARD_K, args.k_ptr, args.stride_b_k, args.stride_s_k, args.stride_h_k);
  sequences.set_tokens(call, TE_REGARD_V, args.v_ptr, args.stride_b_v, args.stride_s_v, args.stride_h_v);
  sequences.set(call, stream);
  if (args.has_sink) call.set(TE_REGARD_SINK, args.sink_ptr);
  set_seed(call, args, dropout);
}

std::string backward_text(const CkAttnBwdArgs& args) {
  const std::string words = Sequences(args).words(number(args.max_tokens_kv)) + sink_words(args);
  return problem_text(
      "bwd", args, args.dropout_probability,
      words + (args.dbias_ptr ? " dbias" : "") + (args.deterministic ? " deterministic" : ""));
}

}  // namespace

hipError_t ck_attn_fwd(const CKAttnFwdArgs& args, hipStream_t stream) {
  const Sequences sequences(args);
  const float dropout = args.is_training ? args.dropout_probability : 0;
  const std::string words = sequences.words(sequences.tokens_k(stream)) + sink_words(args);
  Call call(problem_text("fwd", args, dropout, words + (args.lse_ptr ? " lse" : "")), stream);
  set_inputs(call, args, sequences, dropout, stream);
  sequences.set_tokens(call, TE_REGARD_O, args.o_ptr, args.stride_b_o, args.stride_s_o, args.stride_h_o);
  if (args.lse_ptr != nullptr) call.set(TE_REGARD_LSE, args.lse_ptr);
  call.run();
  return hipSuccess;
}

hipError_t ck_attn_bwd(const CkAttnBwdArgs& args, hipStream_t stream) {
  if (args.d_sink_ptr != nullptr && !args.has_sink)
    refuse(TE_REGARD_INVALID,
           "d_sink_ptr asks for the gradient of sinks that are not there; give sink_ptr too");
  const Sequences sequences(args);
  Call call(backward_text(args), stream);
  call.use_memory(args.aiter_workspace_ptr, number(args.aiter_workspace_bytes));
  set_inputs(call, args, sequences, args.dropout_probability, stream);
  const auto set = [&](te_regard_role role, const void* data, std::uint64_t batch, std::uint64_t row,
                       std::uint64_t head) { sequences.set_tokens(call, role, data, batch, row, head); };
  set(TE_REGARD_O, args.o_ptr, args.stride_b_o, args.stride_s_o, args.stride_h_o);
  set(TE_REGARD_GRAD_O, args.do_ptr, args.stride_b_do, args.stride_s_do, args.stride_h_do);
  set(TE_REGARD_GRAD_Q, args.dq_ptr, args.stride_b_dq, args.stride_s_dq, args.stride_h_dq);
  set(TE_REGARD_GRAD_K, args.dk_ptr, args.stride_b_dk, args.stride_s_dk, args.stride_h_dk);
  set(TE_REGARD_GRAD_V, args.dv_ptr, args.stride_b_dv, args.stride_s_dv, args.stride_h_dv);
  call.set(TE_REGARD_LSE, args.lse_ptr);
  if (args.dbias_ptr != nullptr) call.set(TE_REGARD_GRAD_BIAS, args.dbias_ptr);
  if (args.d_sink_ptr != nullptr) {
    call.set(TE_REGARD_GRAD_SINK, args.d_sink_ptr);
  } else if (args.has_sink) {
    call.set_own(TE_REGARD_GRAD_SINK, std::vector<std::int32_t>(args.h));
  }
  call.run();
  return hipSuccess;
}

std::size_t ck_attn_bwd_workspace_size(const CkAttnBwdArgs& args) {
  return static_cast<std::size_t>(Call(backward_text(args), nullptr).memory_bytes({args.b, args.b, args.h}));
}

bool ck_attn_fwd_uses_v3(const CKAttnFwdArgs&) {
  return false;
}
bool ck_attn_bwd_uses_v3(const CkAttnBwdArgs&) {
  return false;
}

std::uint64_t get_runtime_max_seqlen(std::uint64_t b, const void* cu_seqlen_ptr,
                                     const void* cu_seqlen_padded_ptr, void* /*workspace*/,
                                     hipStream_t stream) {
  const void* sums = cu_seqlen_padded_ptr == nullptr ? cu_seqlen_ptr : cu_seqlen_padded_ptr;
  const std::vector<std::int32_t> lengths = calls::lengths_of(sums, b, stream);
  return lengths.empty() ? 0 : static_cast<std::uint64_t>(*std::max_element(lengths.begin(), lengths.end()));
}

void use_target(const char* target) {
  calls::use_target(target);
}

}  // namespace ck_fused_attn
