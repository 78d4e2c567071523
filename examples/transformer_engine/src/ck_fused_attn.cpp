// The four functions. What AITER's kernels need beside the tensors has no meaning here: which assembly
// kernels are wanted and how those round, room for sums of dQ and for dK, dV and the bias gradient of every
// query head.
#include "ck_fused_attn/ck_fused_attn.hpp"

#include "call.h"
#include "packed.h"
#include "problem_text.h"
#include "refusal.h"

namespace ck_fused_attn {
namespace {

/// The seed and behind it the offset, as they lie in TransformerEngine's rng_state.
void set_seed(Call& call, const Asked& asked, const void* seed, const void* offset) {
  if (asked.dropout == 0) return;
  if (offset != static_cast<const std::uint64_t*>(seed) + 1) {
    refuse(TE_REGARD_REFUSED,
           "the dropout offset does not lie right behind the seed; give the address of two numbers of "
           "64 bits, seed and offset, and that of the second one");
  }
  call.set(TE_REGARD_SEED, seed);
}

void set_bias(Call& call, BiasType type, const void* bias, const void* alibi_slopes) {
  if (type == elementwise_bias) call.set(TE_REGARD_BIAS, bias);
  if (type == alibi) call.set(TE_REGARD_ALIBI, alibi_slopes);
}

/// The words and, once there is a plan for them, the tensors of packed sequences.
struct PackedPair {
  Packed q, k;

  bool padded() const { return q.padded() || k.padded(); }
  std::string words(std::uint64_t tokens_q, std::uint64_t tokens_k) const {
    return std::string(" varlen") + (padded() ? " lengths" : "") + word("tq", tokens_q) +
           word("tk", tokens_k);
  }
  void set(Call& call, std::uint64_t b, hipStream_t stream) const {
    call.set(TE_REGARD_OFFSETS_Q, q.offsets).set(TE_REGARD_OFFSETS_K, k.offsets);
    if (q.padded()) call.set_lengths(TE_REGARD_LENGTHS_Q, lengths_of(q, b, stream));
    if (k.padded()) call.set_lengths(TE_REGARD_LENGTHS_K, lengths_of(k, b, stream));
  }
};

}  // namespace

hipError_t ck_attn_fwd(DType dtype, std::uint64_t b, std::uint64_t h, std::uint64_t hg, std::uint64_t s_q,
                       std::uint64_t s_kv, std::uint64_t d_qk, std::uint64_t d_v, std::uint64_t bias_b,
                       std::uint64_t bias_h, const void* q, std::uint64_t stride_b_q,
                       std::uint64_t stride_h_q, std::uint64_t stride_s_q, const void* k,
                       std::uint64_t stride_b_k, std::uint64_t stride_h_k, std::uint64_t stride_s_k,
                       const void* v, std::uint64_t stride_b_v, std::uint64_t stride_h_v,
                       std::uint64_t stride_s_v, const void* bias, const void* alibi_slopes, bool is_training,
                       float scale, float dropout, void* philox_seed, void* philox_offset, BiasType bias_type,
                       MaskType mask_type, std::int64_t window_left, std::int64_t window_right, void* o,
                       std::uint64_t stride_b_o, std::uint64_t stride_h_o, std::uint64_t stride_s_o,
                       void* lse, bool /*uses_fwd_v3*/, int /*how_v3_bf16_cvt*/, hipStream_t stream) {
  const Asked asked{dtype,     b,           h,           hg,    s_q,
                    s_kv,      d_qk,        d_v,         scale, is_training ? dropout : 0,
                    mask_type, window_left, window_right};
  Call call(problem_text("fwd", asked, bias_words(asked, bias_type, bias_b, bias_h) + (lse ? " lse" : "")),
            stream);
  call.set(TE_REGARD_Q, q, {stride_b_q, stride_s_q, stride_h_q});
  call.set(TE_REGARD_K, k, {stride_b_k, stride_s_k, stride_h_k});
  call.set(TE_REGARD_V, v, {stride_b_v, stride_s_v, stride_h_v});
  call.set(TE_REGARD_O, o, {stride_b_o, stride_s_o, stride_h_o});
  if (lse != nullptr) call.set(TE_REGARD_LSE, lse);
  set_bias(call, bias_type, bias, alibi_slopes);
  set_seed(call, asked, philox_seed, philox_offset);
  call.run();
  return hipSuccess;
}

hipError_t ck_attn_varlen_fwd(DType dtype, std::uint64_t b, std::uint64_t h, std::uint64_t hg,
                              std::uint64_t s_q, std::uint64_t s_kv, std::uint64_t d_qk, std::uint64_t d_v,
                              std::uint64_t max_tokens_q, const void* q, std::uint64_t stride_h_q,
                              std::uint64_t stride_s_q, const void* k, std::uint64_t stride_h_k,
                              std::uint64_t stride_s_k, const void* v, std::uint64_t stride_h_v,
                              std::uint64_t stride_s_v, const void* cu_seqlen_q, const void* cu_seqlen_kv,
                              const void* cu_seqlen_q_padded, const void* cu_seqlen_kv_padded,
                              bool is_training, float scale, float dropout, void* philox_seed,
                              void* philox_offset, MaskType mask_type, std::int64_t window_left,
                              std::int64_t window_right, void* o, std::uint64_t stride_h_o,
                              std::uint64_t stride_s_o, void* lse_thd, bool /*uses_fwd_v3*/,
                              int /*how_v3_bf16_cvt*/, hipStream_t stream) {
  const Asked asked{dtype,     b,           h,           hg,    s_q,
                    s_kv,      d_qk,        d_v,         scale, is_training ? dropout : 0,
                    mask_type, window_left, window_right};
  const PackedPair packed{{cu_seqlen_q, cu_seqlen_q_padded}, {cu_seqlen_kv, cu_seqlen_kv_padded}};
  // No argument says how many tokens K and V have. They end where the last sequence does.
  const bool self = packed.q.offsets == packed.k.offsets;
  const std::uint64_t tokens_k =
      self ? max_tokens_q : static_cast<std::uint64_t>(host_copy(packed.k.offsets, b, stream).back());
  Call call(problem_text("fwd", asked, packed.words(max_tokens_q, tokens_k) + (lse_thd ? " lse" : "")),
            stream);
  call.set(TE_REGARD_Q, q, {stride_s_q, stride_h_q});
  call.set(TE_REGARD_K, k, {stride_s_k, stride_h_k});
  call.set(TE_REGARD_V, v, {stride_s_v, stride_h_v});
  call.set(TE_REGARD_O, o, {stride_s_o, stride_h_o});
  if (lse_thd != nullptr) call.set(TE_REGARD_LSE, lse_thd);
  packed.set(call, b, stream);
  set_seed(call, asked, philox_seed, philox_offset);
  call.run();
  return hipSuccess;
}

hipError_t ck_attn_bwd(
    DType dtype, std::uint64_t b, std::uint64_t h, std::uint64_t hg, std::uint64_t s_q, std::uint64_t s_kv,
    std::uint64_t d_qk, std::uint64_t d_v, std::uint64_t bias_b, std::uint64_t bias_h, const void* q,
    std::uint64_t stride_b_q, std::uint64_t stride_h_q, std::uint64_t stride_s_q, const void* k,
    std::uint64_t stride_b_k, std::uint64_t stride_h_k, std::uint64_t stride_s_k, const void* v,
    std::uint64_t stride_b_v, std::uint64_t stride_h_v, std::uint64_t stride_s_v, const void* bias,
    const void* alibi_slopes, const void* o, std::uint64_t stride_b_o, std::uint64_t stride_h_o,
    std::uint64_t stride_s_o, const void* lse, const void* grad_o, std::uint64_t stride_b_do,
    std::uint64_t stride_h_do, std::uint64_t stride_s_do, float scale, float dropout, void* philox_seed,
    void* philox_offset, BiasType bias_type, MaskType mask_type, std::int64_t window_left,
    std::int64_t window_right, void* grad_q, std::uint64_t stride_b_dq, std::uint64_t stride_h_dq,
    std::uint64_t stride_s_dq, void* /*grad_q_sums*/, void* /*grad_k_expanded*/, void* /*grad_v_expanded*/,
    std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, void* grad_k,
    std::uint64_t stride_b_dk, std::uint64_t stride_h_dk, std::uint64_t stride_s_dk, void* grad_v,
    std::uint64_t stride_b_dv, std::uint64_t stride_h_dv, std::uint64_t stride_s_dv,
    void* /*grad_bias_expanded*/, void* grad_bias, void* /*lse_workspace*/, bool deterministic,
    bool /*uses_bwd_v3*/, bool /*is_v3_atomic_fp32*/, int /*how_v3_bf16_cvt*/, hipStream_t stream) {
  const Asked asked{dtype, b,     h,       hg,        s_q,         s_kv,        d_qk,
                    d_v,   scale, dropout, mask_type, window_left, window_right};
  const std::string words = bias_words(asked, bias_type, bias_b, bias_h) + (grad_bias ? " dbias" : "");
  Call call(problem_text("bwd", asked, words + (deterministic ? " deterministic" : "")), stream);
  call.set(TE_REGARD_Q, q, {stride_b_q, stride_s_q, stride_h_q});
  call.set(TE_REGARD_K, k, {stride_b_k, stride_s_k, stride_h_k});
  call.set(TE_REGARD_V, v, {stride_b_v, stride_s_v, stride_h_v});
  call.set(TE_REGARD_O, o, {stride_b_o, stride_s_o, stride_h_o});
  call.set(TE_REGARD_LSE, lse);
  call.set(TE_REGARD_GRAD_O, grad_o, {stride_b_do, stride_s_do, stride_h_do});
  call.set(TE_REGARD_GRAD_Q, grad_q, {stride_b_dq, stride_s_dq, stride_h_dq});
  call.set(TE_REGARD_GRAD_K, grad_k, {stride_b_dk, stride_s_dk, stride_h_dk});
  call.set(TE_REGARD_GRAD_V, grad_v, {stride_b_dv, stride_s_dv, stride_h_dv});
  if (grad_bias != nullptr) call.set(TE_REGARD_GRAD_BIAS, grad_bias);
  set_bias(call, bias_type, bias, alibi_slopes);
  set_seed(call, asked, philox_seed, philox_offset);
  call.run();
  return hipSuccess;
}

hipError_t ck_attn_varlen_bwd(
    DType dtype, std::uint64_t b, std::uint64_t h, std::uint64_t hg, std::uint64_t s_q, std::uint64_t s_kv,
    std::uint64_t d_qk, std::uint64_t d_v, std::uint64_t max_tokens_q, std::uint64_t max_tokens_kv,
    const void* q, std::uint64_t stride_h_q, std::uint64_t stride_s_q, const void* k,
    std::uint64_t stride_h_k, std::uint64_t stride_s_k, const void* v, std::uint64_t stride_h_v,
    std::uint64_t stride_s_v, const void* cu_seqlen_q, const void* cu_seqlen_kv,
    const void* cu_seqlen_q_padded, const void* cu_seqlen_kv_padded, const void* o, std::uint64_t stride_h_o,
    std::uint64_t stride_s_o, const void* lse_thd, const void* grad_o, std::uint64_t stride_h_do,
    std::uint64_t stride_s_do, float scale, float dropout, void* philox_seed, void* philox_offset,
    MaskType mask_type, std::int64_t window_left, std::int64_t window_right, void* grad_q,
    std::uint64_t stride_h_dq, std::uint64_t stride_s_dq, void* /*grad_q_sums*/, void* /*grad_k_expanded*/,
    void* /*grad_v_expanded*/, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, void* grad_k,
    std::uint64_t stride_h_dk, std::uint64_t stride_s_dk, void* grad_v, std::uint64_t stride_h_dv,
    std::uint64_t stride_s_dv, void* /*lse_workspace*/, bool deterministic, bool /*uses_bwd_v3*/,
    bool /*is_v3_atomic_fp32*/, int /*how_v3_bf16_cvt*/, hipStream_t stream) {
  const Asked asked{dtype, b,     h,       hg,        s_q,         s_kv,        d_qk,
                    d_v,   scale, dropout, mask_type, window_left, window_right};
  const PackedPair packed{{cu_seqlen_q, cu_seqlen_q_padded}, {cu_seqlen_kv, cu_seqlen_kv_padded}};
  const std::string words =
      packed.words(max_tokens_q, max_tokens_kv) + (deterministic ? " deterministic" : "");
  Call call(problem_text("bwd", asked, words), stream);
  call.set(TE_REGARD_Q, q, {stride_s_q, stride_h_q});
  call.set(TE_REGARD_K, k, {stride_s_k, stride_h_k});
  call.set(TE_REGARD_V, v, {stride_s_v, stride_h_v});
  call.set(TE_REGARD_O, o, {stride_s_o, stride_h_o});
  call.set(TE_REGARD_LSE, lse_thd);
  call.set(TE_REGARD_GRAD_O, grad_o, {stride_s_do, stride_h_do});
  call.set(TE_REGARD_GRAD_Q, grad_q, {stride_s_dq, stride_h_dq});
  call.set(TE_REGARD_GRAD_K, grad_k, {stride_s_dk, stride_h_dk});
  call.set(TE_REGARD_GRAD_V, grad_v, {stride_s_dv, stride_h_dv});
  packed.set(call, b, stream);
  set_seed(call, asked, philox_seed, philox_offset);
  call.run();
  return hipSuccess;
}

}  // namespace ck_fused_attn
