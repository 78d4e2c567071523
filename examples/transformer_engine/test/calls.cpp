#include <algorithm>

#include "case.h"

void call_by_lists(const Case& c, Tensors& t) {
  const auto b = static_cast<int64_t>(c.lengths_q.size());
  const bool has_dbias = c.bias == elementwise_bias;
  if (c.packed) {
    ck_attn_varlen_fwd(c.dtype, b, h, hg, c.room_q, c.room_k, dim, dim, t.tokens_q, t.q.memory->data(),
                       t.q.stride_h, t.q.stride_s, t.k.memory->data(), t.k.stride_h, t.k.stride_s,
                       t.v.memory->data(), t.v.stride_h, t.v.stride_s, t.cu_q.data(), t.cu_kv, t.padded_q,
                       t.padded_k, true, scale, c.dropout, t.rng.data(), t.rng_offset, c.mask, c.left,
                       c.right, t.o.memory->data(), t.o.stride_h, t.o.stride_s, t.lse.data(), false, 0,
                       nullptr);
  } else {
    ck_attn_fwd(c.dtype, b, h, hg, c.room_q, c.room_k, dim, dim, 1, h, t.q.memory->data(), t.q.stride_b,
                t.q.stride_h, t.q.stride_s, t.k.memory->data(), t.k.stride_b, t.k.stride_h, t.k.stride_s,
                t.v.memory->data(), t.v.stride_b, t.v.stride_h, t.v.stride_s, t.bias.data(), t.slopes.data(),
                true, scale, c.dropout, t.rng.data(), t.rng_offset, c.bias, c.mask, c.left, c.right,
                t.o.memory->data(), t.o.stride_b, t.o.stride_h, t.o.stride_s, t.lse.data(), false, 0,
                nullptr);
  }
  if (c.packed) {
    ck_attn_varlen_bwd(c.dtype, b, h, hg, c.room_q, c.room_k, dim, dim, t.tokens_q, t.tokens_k,
                       t.q.memory->data(), t.q.stride_h, t.q.stride_s, t.k.memory->data(), t.k.stride_h,
                       t.k.stride_s, t.v.memory->data(), t.v.stride_h, t.v.stride_s, t.cu_q.data(), t.cu_kv,
                       t.padded_q, t.padded_k, t.o.memory->data(), t.o.stride_h, t.o.stride_s, t.lse.data(),
                       t.grad_o.memory->data(), t.grad_o.stride_h, t.grad_o.stride_s, scale, c.dropout,
                       t.rng.data(), t.rng_offset, c.mask, c.left, c.right, t.grad_q.memory->data(),
                       t.grad_q.stride_h, t.grad_q.stride_s, nullptr, nullptr, nullptr, 0, 0, 0, 0,
                       t.grad_k.memory->data(), t.grad_k.stride_h, t.grad_k.stride_s, t.grad_v.memory->data(),
                       t.grad_v.stride_h, t.grad_v.stride_s, nullptr, true, false, false, 0, nullptr);
  } else {
    ck_attn_bwd(c.dtype, b, h, hg, c.room_q, c.room_k, dim, dim, 1, h, t.q.memory->data(), t.q.stride_b,
                t.q.stride_h, t.q.stride_s, t.k.memory->data(), t.k.stride_b, t.k.stride_h, t.k.stride_s,
                t.v.memory->data(), t.v.stride_b, t.v.stride_h, t.v.stride_s, t.bias.data(), t.slopes.data(),
                t.o.memory->data(), t.o.stride_b, t.o.stride_h, t.o.stride_s, t.lse.data(),
                t.grad_o.memory->data(), t.grad_o.stride_b, t.grad_o.stride_h, t.grad_o.stride_s, scale,
                c.dropout, t.rng.data(), t.rng_offset, c.bias, c.mask, c.left, c.right,
                t.grad_q.memory->data(), t.grad_q.stride_b, t.grad_q.stride_h, t.grad_q.stride_s, nullptr,
                nullptr, nullptr, 0, 0, 0, 0, 0, 0, t.grad_k.memory->data(), t.grad_k.stride_b,
                t.grad_k.stride_h, t.grad_k.stride_s, t.grad_v.memory->data(), t.grad_v.stride_b,
                t.grad_v.stride_h, t.grad_v.stride_s, nullptr, has_dbias ? t.grad_bias.data() : nullptr,
                nullptr, !has_dbias, false, false, 0, nullptr);
  }
}

namespace {

void place(std::uint64_t& stride_b, std::uint64_t& stride_h, std::uint64_t& stride_s, const Tensor& tensor) {
  stride_b = tensor.stride_b, stride_h = tensor.stride_h, stride_s = tensor.stride_s;
}

CKAttnCommonArgs common(const Case& c, Tensors& t) {
  CKAttnCommonArgs args;
  args.dtype = c.dtype;
  args.b = c.lengths_q.size(), args.h = h, args.hg = hg;
  args.s_q = c.room_q, args.s_kv = c.room_k, args.d_qk = args.d_v = dim;
  args.q_ptr = t.q.memory->data(), args.k_ptr = t.k.memory->data(), args.v_ptr = t.v.memory->data();
  place(args.stride_b_q, args.stride_h_q, args.stride_s_q, t.q);
  place(args.stride_b_k, args.stride_h_k, args.stride_s_k, t.k);
  place(args.stride_b_v, args.stride_h_v, args.stride_s_v, t.v);
  place(args.stride_b_o, args.stride_h_o, args.stride_s_o, t.o);
  if (c.packed) {
    args.max_tokens_q = t.tokens_q;
    args.cu_seqlen_q_ptr = t.cu_q.data(), args.cu_seqlen_kv_ptr = t.cu_kv;
    args.cu_seqlen_q_padded_ptr = t.padded_q, args.cu_seqlen_kv_padded_ptr = t.padded_k;
  } else {
    args.bias_b = 1, args.bias_h = h, args.attn_bias_type = c.bias;
    args.bias_ptr = t.bias.data(), args.alibi_slope_ptr = t.slopes.data();
  }
  args.attn_mask_type = c.mask, args.window_size_left = c.left, args.window_size_right = c.right;
  args.scaling_factor = scale, args.dropout_probability = c.dropout;
  args.philox_seed_ptr = t.rng.data(), args.philox_offset_ptr = t.rng_offset;
  if (c.sink) args.sink_ptr = t.sink.data(), args.has_sink = true, args.sink_size = sink_tokens;
  return args;
}

}  // namespace

void call_by_structures(const Case& c, Tensors& t) {
  CKAttnFwdArgs forward{common(c, t)};
  forward.is_training = true;
  forward.o_ptr = t.o.memory->data(), forward.lse_ptr = t.lse.data();
  ck_attn_fwd(forward, nullptr);

  CkAttnBwdArgs backward{common(c, t)};
  backward.max_tokens_kv = t.tokens_k;
  backward.o_ptr = t.o.memory->data(), backward.lse_ptr = t.lse.data(),
  backward.do_ptr = t.grad_o.memory->data();
  place(backward.stride_b_do, backward.stride_h_do, backward.stride_s_do, t.grad_o);
  backward.dq_ptr = t.grad_q.memory->data();
  place(backward.stride_b_dq, backward.stride_h_dq, backward.stride_s_dq, t.grad_q);
  backward.dk_ptr = t.grad_k.memory->data(), backward.dv_ptr = t.grad_v.memory->data();
  place(backward.stride_b_dk, backward.stride_h_dk, backward.stride_s_dk, t.grad_k);
  place(backward.stride_b_dv, backward.stride_h_dv, backward.stride_s_dv, t.grad_v);
  const bool has_dbias = c.bias == elementwise_bias;
  if (has_dbias) backward.dbias_ptr = t.grad_bias.data();
  if (c.sink) backward.d_sink_ptr = t.grad_sink.data();
  backward.deterministic = !has_dbias;
  if (ck_attn_bwd_workspace_size(backward) != 0 || ck_attn_fwd_uses_v3(forward) ||
      ck_attn_bwd_uses_v3(backward))
    throw std::runtime_error("neither a workspace nor AITER's kernels are needed");
  const std::uint64_t longest =
      c.padded ? c.room_q : *std::max_element(c.lengths_q.begin(), c.lengths_q.end());
  if (get_runtime_max_seqlen(c.lengths_q.size(), t.cu_q.data(), t.padded_q, nullptr, nullptr) != longest)
    throw std::runtime_error("the longest sequence is another one");
  ck_attn_bwd(backward, nullptr);
}
