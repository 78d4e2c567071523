// The functions of older versions, with argument lists: each fills the struct of the newer version.
#include "ck_fused_attn/ck_fused_attn.hpp"

#include "refusal.h"

namespace ck_fused_attn {
namespace {

struct Strides {
  std::uint64_t b, h, s;
};

/// Fields that every argument list has.
template <class Args>
Args common(DType dtype, std::uint64_t b, std::uint64_t h, std::uint64_t hg, std::uint64_t s_q,
            std::uint64_t s_kv, std::uint64_t d_qk, std::uint64_t d_v, float scale, float dropout, void* seed,
            void* offset, MaskType mask_type, std::int64_t window_left, std::int64_t window_right) {
  Args args;
  args.dtype = dtype;
  args.b = b, args.h = h, args.hg = hg, args.s_q = s_q, args.s_kv = s_kv, args.d_qk = d_qk, args.d_v = d_v;
  args.scaling_factor = scale;
  args.dropout_probability = dropout;
  args.philox_seed_ptr = seed;
  args.philox_offset_ptr = offset;
  args.attn_mask_type = mask_type;
  args.window_size_left = window_left;
  args.window_size_right = window_right;
  return args;
}

void set_inputs(CKAttnCommonArgs& args, const void* q, Strides of_q, const void* k, Strides of_k,
                const void* v, Strides of_v, Strides of_o) {
  args.q_ptr = q, args.stride_b_q = of_q.b, args.stride_h_q = of_q.h, args.stride_s_q = of_q.s;
  args.k_ptr = k, args.stride_b_k = of_k.b, args.stride_h_k = of_k.h, args.stride_s_k = of_k.s;
  args.v_ptr = v, args.stride_b_v = of_v.b, args.stride_h_v = of_v.h, args.stride_s_v = of_v.s;
  args.stride_b_o = of_o.b, args.stride_h_o = of_o.h, args.stride_s_o = of_o.s;
}

void set_bias(CKAttnCommonArgs& args, BiasType type, const void* bias, std::uint64_t bias_b,
              std::uint64_t bias_h, const void* alibi_slopes) {
  args.attn_bias_type = type;
  args.bias_ptr = bias, args.bias_b = bias_b, args.bias_h = bias_h;
  args.alibi_slope_ptr = alibi_slopes;
}

void set_varlen(CKAttnCommonArgs& args, std::uint64_t max_tokens_q, const void* cu_q, const void* cu_kv,
                const void* cu_q_padded, const void* cu_kv_padded) {
  args.max_tokens_q = max_tokens_q;
  args.cu_seqlen_q_ptr = cu_q, args.cu_seqlen_kv_ptr = cu_kv;
  args.cu_seqlen_q_padded_ptr = cu_q_padded, args.cu_seqlen_kv_padded_ptr = cu_kv_padded;
}

void set_backward(CkAttnBwdArgs& args, const void* o, const void* lse, const void* grad_o, Strides of_do,
                  void* grad_q, Strides of_dq, void* grad_k, Strides of_dk, void* grad_v, Strides of_dv,
                  bool deterministic) {
  args.o_ptr = o, args.lse_ptr = lse;
  args.do_ptr = grad_o, args.stride_b_do = of_do.b, args.stride_h_do = of_do.h, args.stride_s_do = of_do.s;
  args.dq_ptr = grad_q, args.stride_b_dq = of_dq.b, args.stride_h_dq = of_dq.h, args.stride_s_dq = of_dq.s;
  args.dk_ptr = grad_k, args.stride_b_dk = of_dk.b, args.stride_h_dk = of_dk.h, args.stride_s_dk = of_dk.s;
  args.dv_ptr = grad_v, args.stride_b_dv = of_dv.b, args.stride_h_dv = of_dv.h, args.stride_s_dv = of_dv.s;
  args.deterministic = deterministic;
}

/// Packed sequences without cumulative lengths would be taken for dense ones.
void require_varlen(const void* cu_seqlen_q) {
  if (cu_seqlen_q == nullptr)
    calls::refuse(TE_REGARD_INVALID, "the cumulative lengths are missing; packed sequences need both");
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
  auto args = common<CKAttnFwdArgs>(dtype, b, h, hg, s_q, s_kv, d_qk, d_v, scale, dropout, philox_seed,
                                    philox_offset, mask_type, window_left, window_right);
  set_inputs(args, q, {stride_b_q, stride_h_q, stride_s_q}, k, {stride_b_k, stride_h_k, stride_s_k}, v,
             {stride_b_v, stride_h_v, stride_s_v}, {stride_b_o, stride_h_o, stride_s_o});
  set_bias(args, bias_type, bias, bias_b, bias_h, alibi_slopes);
  args.is_training = is_training;
  args.o_ptr = o;
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
  require_varlen(cu_seqlen_q);
  auto args = common<CKAttnFwdArgs>(dtype, b, h, hg, s_q, s_kv, d_qk, d_v, scale, dropout, philox_seed,
                                    philox_offset, mask_type, window_left, window_right);
  set_inputs(args, q, {0, stride_h_q, stride_s_q}, k, {0, stride_h_k, stride_s_k}, v,
             {0, stride_h_v, stride_s_v}, {0, stride_h_o, stride_s_o});
  set_varlen(args, max_tokens_q, cu_seqlen_q, cu_seqlen_kv, cu_seqlen_q_padded, cu_seqlen_kv_padded);
  args.is_training = is_training;
  args.o_ptr = o;
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
  auto args = common<CkAttnBwdArgs>(dtype, b, h, hg, s_q, s_kv, d_qk, d_v, scale, dropout, philox_seed,
                                    philox_offset, mask_type, window_left, window_right);
  set_inputs(args, q, {stride_b_q, stride_h_q, stride_s_q}, k, {stride_b_k, stride_h_k, stride_s_k}, v,
             {stride_b_v, stride_h_v, stride_s_v}, {stride_b_o, stride_h_o, stride_s_o});
  set_bias(args, bias_type, bias, bias_b, bias_h, alibi_slopes);
  set_backward(args, o, lse, grad_o, {stride_b_do, stride_h_do, stride_s_do}, grad_q,
               {stride_b_dq, stride_h_dq, stride_s_dq}, grad_k, {stride_b_dk, stride_h_dk, stride_s_dk},
               grad_v, {stride_b_dv, stride_h_dv, stride_s_dv}, deterministic);
  args.dbias_ptr = grad_bias;
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
  require_varlen(cu_seqlen_q);
  auto args = common<CkAttnBwdArgs>(dtype, b, h, hg, s_q, s_kv, d_qk, d_v, scale, dropout, philox_seed,
                                    philox_offset, mask_type, window_left, window_right);
  set_inputs(args, q, {0, stride_h_q, stride_s_q}, k, {0, stride_h_k, stride_s_k}, v,
             {0, stride_h_v, stride_s_v}, {0, stride_h_o, stride_s_o});
  set_varlen(args, max_tokens_q, cu_seqlen_q, cu_seqlen_kv, cu_seqlen_q_padded, cu_seqlen_kv_padded);
  set_backward(args, o, lse_thd, grad_o, {0, stride_h_do, stride_s_do}, grad_q, {0, stride_h_dq, stride_s_dq},
               grad_k, {0, stride_h_dk, stride_s_dk}, grad_v, {0, stride_h_dv, stride_s_dv}, deterministic);
  args.max_tokens_kv = max_tokens_kv;
  return ck_attn_bwd(args, stream);
}

}  // namespace ck_fused_attn
