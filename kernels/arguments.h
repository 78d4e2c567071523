// The arguments of every kernel; on a GPU, pointers are device addresses. The engine fills them in
// (src/engine/bind.cpp) and kernels read them. This file is part of every rendered source, so a change of
// its code changes the identity of every kernel; the schedule of a single kernel follows these arguments
// (kernel_arguments.h).
#pragma once

namespace regard {

using i64 = long long;
using u64 = unsigned long long;
using i32 = int;
using u32 = unsigned int;
using u16 = unsigned short;
using u8 = unsigned char;

/// A tensor viewed as [batch, head, row, column] with contiguous columns; strides are in elements. A
/// broadcast dimension has stride 0. Varlen tensors have batch = 0 and count rows over all tokens.
struct Rows {
  void* data;
  i64 batch, head, row;
};

struct Arguments {
  Rows q, k, v, o;  // in the problem's dtype; o in `out`
  Rows grad_o, grad_q, grad_k, grad_v;
  Rows bias, grad_bias;  // in `bias_dtype`
  Rows lse;              // fp32; data may be null in forward. varlen: [hq, tq]
  Rows bits;             // u32 words; null: absent
  Rows dropout_mask;     // u8 out; null: absent
  const float* alibi;    // slopes; null: absent
  i64 alibi_batch;       // 0 for [hq], hq for [b,hq]
  const float* sink;     // learned sink [hq]; null: absent
  float* grad_sink;
  const i32* offsets_q;  // [b+1] physical offsets; null: dense
  const i32* offsets_k;
  const i32* lengths_q;  // [b] logical lengths; null: physical ones
  const i32* lengths_k;
  const i32* ranges;       // [1|b, sq, 2] or [tq, 2]; null: absent
  i64 ranges_batch;        // elements per batch; 0 when broadcast. varlen: rows count over tokens
  const float* descale_q;  // null: 1. index batch * descale_batch + kv_head * descale_head
  const float* descale_k;
  const float* descale_v;
  i64 descale_batch, descale_head;

  i64 b, hq, hk, sq, sk;  // sq, sk: longest, with varlen
  i32 d, dv;
  i32 dtype, out,
      bias_dtype;  // enum DType of src/problem/problem.h (fp32 0, bf16 1, fp16 2, 8-bit types from 3 on)
  i32 positional;  // 1: a mask by position; else window_left and window_right are -1
  i32 top_left;    // 1: the diagonal starts at (0,0), else it ends at (sq,sk)
  i64 window_left, window_right;  // -1: unbounded. causal is (-1, 0)
  i64 sink_tokens;                // first keys visible left of the window
  float scale;
  float softcap;        // 0: off
  float dropout_scale;  // scales the weights that dropout keeps; 1 without dropout
  i32 dropout_keep;     // keep iff random byte <= dropout_keep; 255 without dropout
  u64 seed, offset;
  const u64* seeds;  // gpu: pointer to both seeds; null: the values above

  i64 tq, tk;    // total tokens: b * sq dense
  u32* counter;  // gpu: work items taken so far, 0 at launch; null: blocks step by the grid
};

}  // namespace regard
