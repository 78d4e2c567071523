// The four functions of the older interface, by those of the newer one.
#include "ck_fused_attn/ck_fused_attn.hpp"

#include "refusal.h"

namespace ck_fused_attn {
namespace {

struct Sizes {
  std::uint64_t b, h, hg, s_q, s_kv, d_qk, d_v;
};

void set_sizes(CKAttnCommonArgs& args, DType dtype, const Sizes& sizes) {
  args.dtype = dtype;
  args.b = sizes.b, args.h = sizes.h, args.hg = sizes.hg;
  args.s_q = sizes.s_q, args.s_kv = sizes.s_kv;
  args.d_qk = sizes.d_qk, args.d_v = sizes.d_v;
}

void set_scores(CKAttnCommonArgs& args, float scale, float dropout, void* seed, void* offset, MaskType mask,
                std::int64_t left, std::int64_t right) {
  args.scaling_factor = scale;
  args.dropout_probability = dropout, args.philox_seed_ptr = seed, args.philox_offset_ptr = offset;
  args.attn_mask_type = mask, args.window_size_left = left, args.window_size_right = right;
}

/// Without cumulative lengths the newer functions would take the sequences for dense ones.
void set_lengths(CKAttnCommonArgs& args, const void* q, const void* kv, const void* q_padded,
                 const void* kv_padded) {
  if (q == nullptr || kv == nullptr)
    refuse(TE_REGARD_INVALID, "the cumulative lengths are missing; packed sequences need both");
  args.cu_seqlen_q_ptr = q, args.cu_seqlen_kv_ptr = kv;
  args.cu_seqlen_q_padded_ptr = q_padded, args.cu_seqlen_kv_padded_ptr = kv_padded;
}

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
  CKAttnFwdArgs args;
  set_sizes(args, dtype, {b, h, hg, s_q, s_kv, d_qk, d_v});
  args.bias_b = bias_b, args.bias_h = bias_h;
  args.bias_ptr = bias, args.alibi_slope_ptr = alibi_slopes, args.attn_bias_type = bias_type;
  args.q_ptr = q, args.stride_b_q = stride_b_q, args.stride_h_q = stride_h_q, args.stride_s_q = stride_s_q;
  args.k_ptr = k, args.stride_b_k = stride_b_k, args.stride_h_k = stride_h_k, args.stride_s_k = stride_s_k;
  args.v_ptr = v, args.stride_b_v = stride_b_v, args.stride_h_v = stride_h_v, args.stride_s_v = stride_s_v;
  args.o_ptr = o, args.stride_b_o = stride_b_o, args.stride_h_o = stride_h_o, args.stride_s_o = stride_s_o;
  set_scores(args, scale, dropout, philox_seed, philox_offset, mask_type, window_left, window_right);
  args.is_training = is_training;
  args.lse_ptr = lse;
  return ck_attn_fwd(args, stream);
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
  CKAttnFwdArgs args;
  set_sizes(args, dtype, {b, h, hg, s_q, s_kv, d_qk, d_v});
  args.max_tokens_q = max_tokens_q;
  set_lengths(args, cu_seqlen_q, cu_seqlen_kv, cu_seqlen_q_padded, cu_seqlen_kv_padded);
  args.q_ptr = q, args.stride_h_q = stride_h_q, args.stride_s_q = stride_s_q;
  args.k_ptr = k, args.stride_h_k = stride_h_k, args.stride_s_k = stride_s_k;
  args.v_ptr = v, args.stride_h_v = stride_h_v, args.stride_s_v = stride_s_v;
  args.o_ptr = o, args.stride_h_o = stride_h_o, args.stride_s_o = stride_s_o;
  set_scores(args, scale, dropout, philox_seed, philox_offset, mask_type, window_left, window_right);
  args.is_training = is_training;
  args.lse_ptr = lse_thd;
  return ck_attn_fwd(args, stream);
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
  CkAttnBwdArgs args;
  set_sizes(args, dtype, {b, h, hg, s_q, s_kv, d_qk, d_v});
  args.bias_b = bias_b, args.bias_h = bias_h;
  args.bias_ptr = bias, args.alibi_slope_ptr = alibi_slopes, args.attn_bias_type = bias_type;
  args.q_ptr = q, args.stride_b_q = stride_b_q, args.stride_h_q = stride_h_q, args.stride_s_q = stride_s_q;
  args.k_ptr = k, args.stride_b_k = stride_b_k, args.stride_h_k = stride_h_k, args.stride_s_k = stride_s_k;
  args.v_ptr = v, args.stride_b_v = stride_b_v, args.stride_h_v = stride_h_v, args.stride_s_v = stride_s_v;
  args.o_ptr = o, args.stride_b_o = stride_b_o, args.stride_h_o = stride_h_o, args.stride_s_o = stride_s_o;
  set_scores(args, scale, dropout, philox_seed, philox_offset, mask_type, window_left, window_right);
  args.lse_ptr = lse;
  args.do_ptr = grad_o, args.stride_b_do = stride_b_do, args.stride_h_do = stride_h_do,
  args.stride_s_do = stride_s_do;
  args.dq_ptr = grad_q, args.stride_b_dq = stride_b_dq, args.stride_h_dq = stride_h_dq,
  args.stride_s_dq = stride_s_dq;
  args.dk_ptr = grad_k, args.stride_b_dk = stride_b_dk, args.stride_h_dk = stride_h_dk,
  args.stride_s_dk = stride_s_dk;
  args.dv_ptr = grad_v, args.stride_b_dv = stride_b_dv, args.stride_h_dv = stride_h_dv,
  args.stride_s_dv = stride_s_dv;
  args.dbias_ptr = grad_bias;
  args.deterministic = deterministic;
  return ck_attn_bwd(args, stream);
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
  CkAttnBwdArgs args;
  set_sizes(args, dtype, {b, h, hg, s_q, s_kv, d_qk, d_v});
  args.max_tokens_q = max_tokens_q;
  args.max_tokens_kv = max_tokens_kv;
  set_lengths(args, cu_seqlen_q, cu_seqlen_kv, cu_seqlen_q_padded, cu_seqlen_kv_padded);
  args.q_ptr = q, args.stride_h_q = stride_h_q, args.stride_s_q = stride_s_q;
  args.k_ptr = k, args.stride_h_k = stride_h_k, args.stride_s_k = stride_s_k;
  args.v_ptr = v, args.stride_h_v = stride_h_v, args.stride_s_v = stride_s_v;
  args.o_ptr = o, args.stride_h_o = stride_h_o, args.stride_s_o = stride_s_o;
  set_scores(args, scale, dropout, philox_seed, philox_offset, mask_type, window_left, window_right);
  args.lse_ptr = lse_thd;
  args.do_ptr = grad_o, args.stride_h_do = stride_h_do, args.stride_s_do = stride_s_do;
  args.dq_ptr = grad_q, args.stride_h_dq = stride_h_dq, args.stride_s_dq = stride_s_dq;
  args.dk_ptr = grad_k, args.stride_h_dk = stride_h_dk, args.stride_s_dk = stride_s_dk;
  args.dv_ptr = grad_v, args.stride_h_dv = stride_h_dv, args.stride_s_dv = stride_s_dv;
  args.deterministic = deterministic;
  return ck_attn_bwd(args, stream);
}

}  // namespace ck_fused_attn
