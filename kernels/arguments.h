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

/// Where the rows of K and V lie in a KV cache. Null pointers: absent.
struct KvCache {
  const i32* page_table;         // the page of each block of rows, sequence by sequence; or a list of pages
  i64 page_table_batch;          // elements of the table from one sequence to the next
  const i32* page_offsets;       // [b+1]: where a sequence's pages begin in the list; null: a table
  const i32* last_page_lengths;  // [b], with a list
  const i32* index;              // [b]: the sequence of the dense cache
  const i32* left_padding;       // [b]: rows before the first key
  i64 page;                      // rows of a page; 0: a dense cache
  i64 k_chunk, v_chunk;          // vectorized pages: elements from one group of 16 bytes to the next; else 0
  i32 present;                   // 0: K and V are no cache
};

/// New tokens, which are written into K and V.
struct NewTokens {
  Rows k, v;
  Rows q;                // the caller's queries, which are rotated into Arguments::q; null: not rotated
  const i32* offsets;    // [b+1], packed; null: [b, most]
  const void* slots;     // the row of the cache of each token, i32 or i64; null: after the sequence's keys
  i32 wide_slots;        // 1: i64
  const i32* positions;  // for rope; null: those after the sequence's keys
  i64 positions_batch, positions_row;  // the latter is 0 where tokens follow each other
  Rows cos, sin;                       // rows are positions; in `rope_type`
  i64 rope_rows;
  i64 most;                   // tokens per sequence; 0: none
  i64 total;                  // packed tokens; 0: dense
  i32 rotary, first_rotated;  // columns
  i32 rope, rope_type;        // enum Rope, enum DType of src/problem/problem.h
};

struct Arguments {
  Rows q, k, v, o;  // in the problem's dtype; k and v in `kv`, o in `out`
  Rows k_rope;  // the columns of K from dv on, or null if `k` has them; in `kv`, or in the problem's dtype
                // if columns of K have factors
  Rows grad_o, grad_q, grad_k, grad_v;
  Rows bias, grad_bias;  // in `bias_dtype`
  Rows lse;              // fp32; data may be null in forward. varlen: [hq, tq]
  Rows row_max;          // the largest score of each row, likewise
  Rows grad_lse;         // like LSE; null: it has no gradient
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
  const i32* ranges;  // [1|b, sq, 2] or [tq, 2]; null: absent
  i64 ranges_batch;   // elements per batch; 0 when broadcast. varlen: rows count over tokens
  Rows descale_q, descale_k, descale_v;  // fp32 factors, without columns except for `columns`; null: 1
  i32 descale;  // enum Descale of src/problem/problem.h; from `token` on, factors are indexed like K
  KvCache cache;
  NewTokens added;
  Rows parts_o, parts_lse;  // partial results to be merged: [part, head, token]; O in the problem's dtype
  i32 accumulate;           // 1: O and LSE are one more part
  i32 tile_map;             // words from `bits` to their map, if a stage writes them (tile_map.h); 0: no map

  i64 b, hq, hk, sq, sk;  // sq, sk: longest, with varlen
  i32 d, dv;
  i32 dtype, kv, out,
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
