#include "through_lists.h"

using namespace ck_fused_attn;

void forward_through_lists(const CKAttnFwdArgs& a) {
  if (a.is_group_mode()) {
    ck_attn_varlen_fwd(a.dtype, a.b, a.h, a.hg, a.s_q, a.s_kv, a.d_qk, a.d_v, a.max_tokens_q, a.q_ptr,
                       a.stride_h_q, a.stride_s_q, a.k_ptr, a.stride_h_k, a.stride_s_k, a.v_ptr, a.stride_h_v,
                       a.stride_s_v, a.cu_seqlen_q_ptr, a.cu_seqlen_kv_ptr, a.cu_seqlen_q_padded_ptr,
                       a.cu_seqlen_kv_padded_ptr, a.is_training, a.scaling_factor, a.dropout_probability,
                       a.philox_seed_ptr, a.philox_offset_ptr, a.attn_mask_type, a.window_size_left,
                       a.window_size_right, a.o_ptr, a.stride_h_o, a.stride_s_o, a.lse_ptr, false, 0,
                       nullptr);
  } else {
    ck_attn_fwd(a.dtype, a.b, a.h, a.hg, a.s_q, a.s_kv, a.d_qk, a.d_v, a.bias_b, a.bias_h, a.q_ptr,
                a.stride_b_q, a.stride_h_q, a.stride_s_q, a.k_ptr, a.stride_b_k, a.stride_h_k, a.stride_s_k,
                a.v_ptr, a.stride_b_v, a.stride_h_v, a.stride_s_v, a.bias_ptr, a.alibi_slope_ptr,
                a.is_training, a.scaling_factor, a.dropout_probability, a.philox_seed_ptr,
                a.philox_offset_ptr, a.attn_bias_type, a.attn_mask_type, a.window_size_left,
                a.window_size_right, a.o_ptr, a.stride_b_o, a.stride_h_o, a.stride_s_o, a.lse_ptr, false, 0,
                nullptr);
  }
}

void backward_through_lists(const CkAttnBwdArgs& a) {
  if (a.is_group_mode()) {
    ck_attn_varlen_bwd(
        a.dtype, a.b, a.h, a.hg, a.s_q, a.s_kv, a.d_qk, a.d_v, a.max_tokens_q, a.max_tokens_kv, a.q_ptr,
        a.stride_h_q, a.stride_s_q, a.k_ptr, a.stride_h_k, a.stride_s_k, a.v_ptr, a.stride_h_v, a.stride_s_v,
        a.cu_seqlen_q_ptr, a.cu_seqlen_kv_ptr, a.cu_seqlen_q_padded_ptr, a.cu_seqlen_kv_padded_ptr, a.o_ptr,
        a.stride_h_o, a.stride_s_o, a.lse_ptr, a.do_ptr, a.stride_h_do, a.stride_s_do, a.scaling_factor,
        a.dropout_probability, a.philox_seed_ptr, a.philox_offset_ptr, a.attn_mask_type, a.window_size_left,
        a.window_size_right, a.dq_ptr, a.stride_h_dq, a.stride_s_dq, nullptr, nullptr, nullptr, 0, 0, 0, 0,
        a.dk_ptr, a.stride_h_dk, a.stride_s_dk, a.dv_ptr, a.stride_h_dv, a.stride_s_dv, nullptr,
        a.deterministic, false, false, 0, nullptr);
  } else {
    ck_attn_bwd(a.dtype, a.b, a.h, a.hg, a.s_q, a.s_kv, a.d_qk, a.d_v, a.bias_b, a.bias_h, a.q_ptr,
                a.stride_b_q, a.stride_h_q, a.stride_s_q, a.k_ptr, a.stride_b_k, a.stride_h_k, a.stride_s_k,
                a.v_ptr, a.stride_b_v, a.stride_h_v, a.stride_s_v, a.bias_ptr, a.alibi_slope_ptr, a.o_ptr,
                a.stride_b_o, a.stride_h_o, a.stride_s_o, a.lse_ptr, a.do_ptr, a.stride_b_do, a.stride_h_do,
                a.stride_s_do, a.scaling_factor, a.dropout_probability, a.philox_seed_ptr,
                a.philox_offset_ptr, a.attn_bias_type, a.attn_mask_type, a.window_size_left,
                a.window_size_right, a.dq_ptr, a.stride_b_dq, a.stride_h_dq, a.stride_s_dq, nullptr, nullptr,
                nullptr, 0, 0, 0, 0, 0, 0, a.dk_ptr, a.stride_b_dk, a.stride_h_dk, a.stride_s_dk, a.dv_ptr,
                a.stride_b_dv, a.stride_h_dv, a.stride_s_dv, nullptr, a.dbias_ptr, nullptr, a.deterministic,
                false, false, 0, nullptr);
  }
}
