// What every kernel is called with, on a GPU with addresses of its memory. The engine fills it
// (src/engine/bind.cpp); kernels read it. This file is part of every rendered source, so a change here
// changes every kernel's identity.
#pragma once

namespace regard {

using i64 = long long;
using u64 = unsigned long long;
using i32 = int;
using u32 = unsigned int;
using u16 = unsigned short;
using u8 = unsigned char;

/// A tensor seen as [batch, head, row, column] with a contiguous column; strides in elements. A broadcast
/// dimension has stride 0. Varlen tensors have batch = 0 and rows counted over all tokens.
struct Rows {
  void* data;
  i64 batch, head, row;
};

struct Arguments {
  Rows q, k, v, o;  // in the problem's dtype; o in `out`
  Rows grad_o, grad_q, grad_k, grad_v;
  Rows bias, grad_bias;  // bias in dtype of Q (fp32 for fp8)
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
      bias_dtype;  // enum DType of src/problem/problem.h (fp32 0, bf16 1, fp16 2, fp8 3, fp8_e5m2 4)
  i32 positional;  // 1: window_left, window_right, sink_tokens apply
  i32 top_left;    // 1: the diagonal starts at (0,0), else it ends at (sq,sk)
  i64 window_left, window_right;  // -1: unbounded. causal is (-1, 0)
  i64 sink_tokens;                // first keys visible left of the window
  float scale;
  float softcap;        // 0: off
  float dropout_scale;  // factor of the weights that dropout keeps; 1 without dropout
  i32 dropout_keep;     // keep iff random byte <= dropout_keep; 255 without dropout
  u64 seed, offset;
  const u64* seeds;  // gpu: the two, in memory; null: those above

  // Workspace, laid out by the plan (src/plan/workspace.h).
  i64 splits;          // parts of the key range, 1 = none
  i64 split_keys;      // keys per part
  i64 pack_gqa;        // forward on a CPU: query heads of one K/V head whose rows share blocks. at least 1
  i64 block_rows;      // forward: query rows per block, whole tiles, at most key::block_q
  i64 whole_blocks;    // forward on a CPU: blocks of rows of all heads; those behind are cut in parts
  i64 part_rows;       // query rows of such a part, whole tiles
  float* partial_o;    // [splits, b, hq, sq, dv] (varlen: [splits, hq, tq, dv])
  float* partial_lse;  // [splits, b, hq, sq]     (varlen: [splits, hq, tq])
  float* delta;        // backward: rowsum(dO * O), [b, hq, sq] (varlen [hq, tq])
  float* grad_q_sum;  // backward: [b, hq, sq, d rounded up to 16] (varlen [hq, tq, ..]), or blocks transposed
  float* grad_q_earlier;  // likewise, of the blocks of keys before (long_sum.h); null: no sum is long
  i64* progress;          // backward: [b, hk, query_parts, blocks of keys], 64 bytes apart (backward_order.h)
  i64 key_blocks;         // how many those are
  i64 query_parts;        // backward on a CPU: parts of the queries with sums of their own, 1 = none
  i64 part_queries;       // rows per part
  i64 part_heads;         // query heads of a group per part
  i64 parts_apart;        // 1: parts have blocks of their own, 0: each block goes through all
  float* grad_k_partial;  // sums of parts apart: [query_parts, hk, tk, d rounded up to 16]
  float* grad_v_partial;  // [query_parts, hk, tk, dv rounded up to 16]
  float* grad_bias_partial;  // backward: fp32 image of a broadcast bias gradient
  float* grad_bias_lost;     // what its roundings took off; null: few heads share the bias
  i64 tq, tk;                // total tokens: b * sq dense
  u32* counter;              // gpu: of work taken, 0 at launch; null: in steps of the grid
  i32 side_by_side;          // worked on at once: gpu: (batch, head) pairs; cpu: blocks. at least 1
  i32 pack_gqa_by_strides;   // gpu: query heads of one row each that strides make rows of one. at least 1
  i32 before_last;           // Hopper: pairs that go side_by_side; those behind them go together
};

}  // namespace regard
