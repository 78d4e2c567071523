// The functions of the newer interface. What AITER's kernels need beside the tensors has no meaning here:
// which assembly kernels are wanted and how those round, room for sums of dQ and for dK, dV and the bias
// gradient of every query head.
#include "ck_fused_attn/ck_fused_attn.hpp"

#include <algorithm>

#include "call.h"
#include "packed.h"
#include "problem_text.h"
#include "refusal.h"

namespace ck_fused_attn {
namespace {

/// The words and, once there is a plan for them, the tensors of packed sequences; nothing of dense ones.
class Layout {
 public:
  Layout(const CKAttnCommonArgs& args, hipStream_t stream)
      : args_(args),
        stream_(stream),
        q_(args.cu_seqlen_q_ptr, args.cu_seqlen_q_padded_ptr),
        k_(args.cu_seqlen_kv_ptr, args.cu_seqlen_kv_padded_ptr) {}

  /// Forward is not told how many tokens K and V have. They end where the last sequence does.
  std::uint64_t tokens_k() const {
    if (!args_.is_group_mode() || q_.offsets == k_.offsets) return args_.max_tokens_q;
    return static_cast<std::uint64_t>(host_copy(k_.offsets, args_.b, stream_).back());
  }
  std::string words(std::uint64_t tokens_k) const {
    if (!args_.is_group_mode()) return "";
    return std::string(" varlen") + (q_.padded() || k_.padded() ? " lengths" : "") +
           word("tq", args_.max_tokens_q) + word("tk", tokens_k);
  }
  void set_lengths(Call& call) const {
    if (!args_.is_group_mode()) return;
    call.set(TE_REGARD_OFFSETS_Q, q_.offsets).set(TE_REGARD_OFFSETS_K, k_.offsets);
    if (q_.padded()) call.set_lengths(TE_REGARD_LENGTHS_Q, lengths_of(q_, args_.b, stream_));
    if (k_.padded()) call.set_lengths(TE_REGARD_LENGTHS_K, lengths_of(k_, args_.b, stream_));
  }
  void set(Call& call, te_regard_role role, const void* data, std::uint64_t stride_b, std::uint64_t stride_h,
           std::uint64_t stride_s) const {
    if (args_.is_group_mode())
      call.set(role, data, {stride_s, stride_h});
    else
      call.set(role, data, {stride_b, stride_s, stride_h});
  }

 private:
  const CKAttnCommonArgs& args_;
  hipStream_t stream_;
  Packed q_, k_;
};

/// The seed and behind it the offset, as they lie in TransformerEngine's rng_state.
void set_seed(Call& call, const CKAttnCommonArgs& args) {
  if (args.philox_offset_ptr != static_cast<const std::uint64_t*>(args.philox_seed_ptr) + 1) {
    refuse(TE_REGARD_REFUSED,
           "the dropout offset does not lie right behind the seed; give the address of two numbers of "
           "64 bits, seed and offset, and that of the second one");
  }
  call.set(TE_REGARD_SEED, args.philox_seed_ptr);
}

/// What forward and backward both read.
void set_inputs(Call& call, const Layout& layout, const CKAttnCommonArgs& args, float dropout) {
  layout.set(call, TE_REGARD_Q, args.q_ptr, args.stride_b_q, args.stride_h_q, args.stride_s_q);
  layout.set(call, TE_REGARD_K, args.k_ptr, args.stride_b_k, args.stride_h_k, args.stride_s_k);
  layout.set(call, TE_REGARD_V, args.v_ptr, args.stride_b_v, args.stride_h_v, args.stride_s_v);
  layout.set_lengths(call);
  if (args.attn_bias_type == elementwise_bias) call.set(TE_REGARD_BIAS, args.bias_ptr);
  if (args.attn_bias_type == alibi) call.set(TE_REGARD_ALIBI, args.alibi_slope_ptr);
  if (args.sink_ptr != nullptr) call.set(TE_REGARD_SINK, args.sink_ptr);
  if (dropout != 0) set_seed(call, args);
}

}  // namespace

hipError_t ck_attn_fwd(const CKAttnFwdArgs& args, hipStream_t stream) {
  const float dropout = args.is_training ? args.dropout_probability : 0;
  const Layout layout(args, stream);
  const std::string more = layout.words(layout.tokens_k()) + bias_words(args) + sink_words(args) +
                           (args.lse_ptr != nullptr ? " lse" : "");
  Call call(problem_text("fwd", args, dropout, more), stream);
  set_inputs(call, layout, args, dropout);
  layout.set(call, TE_REGARD_O, args.o_ptr, args.stride_b_o, args.stride_h_o, args.stride_s_o);
  if (args.lse_ptr != nullptr) call.set(TE_REGARD_LSE, args.lse_ptr);
  call.run();
  return hipSuccess;
}

hipError_t ck_attn_bwd(const CkAttnBwdArgs& args, hipStream_t stream) {
  const float dropout = args.dropout_probability;
  const Layout layout(args, stream);
  const std::string more = layout.words(args.max_tokens_kv) + bias_words(args) + sink_words(args) +
                           (args.dbias_ptr != nullptr ? " dbias" : "") +
                           (args.deterministic ? " deterministic" : "");
  Call call(problem_text("bwd", args, dropout, more), stream);
  set_inputs(call, layout, args, dropout);
  layout.set(call, TE_REGARD_O, args.o_ptr, args.stride_b_o, args.stride_h_o, args.stride_s_o);
  call.set(TE_REGARD_LSE, args.lse_ptr);
  layout.set(call, TE_REGARD_GRAD_O, args.do_ptr, args.stride_b_do, args.stride_h_do, args.stride_s_do);
  layout.set(call, TE_REGARD_GRAD_Q, args.dq_ptr, args.stride_b_dq, args.stride_h_dq, args.stride_s_dq);
  layout.set(call, TE_REGARD_GRAD_K, args.dk_ptr, args.stride_b_dk, args.stride_h_dk, args.stride_s_dk);
  layout.set(call, TE_REGARD_GRAD_V, args.dv_ptr, args.stride_b_dv, args.stride_h_dv, args.stride_s_dv);
  if (args.dbias_ptr != nullptr) call.set(TE_REGARD_GRAD_BIAS, args.dbias_ptr);
  if (args.sink_ptr != nullptr) call.set(TE_REGARD_GRAD_SINK, args.d_sink_ptr);
  call.run();
  return hipSuccess;
}

std::size_t ck_attn_bwd_workspace_size(const CkAttnBwdArgs& /*args*/) {
  return 0;
}

bool ck_attn_fwd_uses_v3(const CKAttnFwdArgs& /*args*/) {
  return false;
}

bool ck_attn_bwd_uses_v3(const CkAttnBwdArgs& /*args*/) {
  return false;
}

std::uint64_t get_runtime_max_seqlen(std::uint64_t b, const void* cu_seqlen_ptr,
                                     const void* cu_seqlen_padded_ptr, void* /*workspace*/,
                                     hipStream_t stream) {
  const void* sums = cu_seqlen_padded_ptr == nullptr ? cu_seqlen_ptr : cu_seqlen_padded_ptr;
  std::uint64_t longest = 0;
  for (const std::int32_t length : lengths_of({sums, nullptr}, b, stream))
    longest = std::max(longest, static_cast<std::uint64_t>(length));
  return longest;
}

}  // namespace ck_fused_attn
