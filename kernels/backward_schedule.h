// How the plan divides backward on a GPU, and what its stages pass to each other in the workspace: prepare
// computes what each query row needs, a main kernel adds to the sums, convert rounds them.
#pragma once

#include "kernels/inline.h"
#include "kernels/kernel_arguments.h"

namespace regard {

/// Memory layout of a tile of grad_q_sum. It matches the registers of the threads that add to it, so that
/// the 16 bytes of a thread are next to those of its neighbours. rows: block_q rows of all columns.
/// fragments: slices of 64 rows each, also split by columns if there are more slices than that gives. A
/// slice holds the sums of one warpgroup's matrix product: its float4 number i * 128 + t holds the sums 4i
/// to 4i + 3 of thread t. Slices of the same columns are consecutive.
enum class GradQOrder : i32 { rows, fragments };

struct GradQTile {
  i32 rows, columns, slices;

  static constexpr i32 slice_length = 64, warpgroup = 128;

  /// The offset, in floats, of the sum of a row and a column.
  template <GradQOrder order>
  constexpr REGARD_INLINE i32 offset(i32 row, i32 column) const {
    if (order == GradQOrder::rows) return row * columns + column;
    const i32 row_parts = rows / slice_length, width = columns / (slices / row_parts);
    const i32 slice = row / slice_length + column / width * row_parts;
    const i32 thread = row % slice_length / 16 * 32 + row % 8 * 4 + column % 8 / 2;
    const i32 vector = column % width / 8 * warpgroup + thread;
    return slice * slice_length * width + vector * 4 + row % 16 / 8 * 2 + column % 2;
  }
};

/// In fp16, whose smallest normal number is 2^-14, P of a row that sees thousands of keys would lose digits.
/// As P is at most 1, it is scaled up to half of fp16's largest number. `Type` is a DType.
template <class Type>
constexpr REGARD_INLINE i32 p_exponent_of(Type operand) {
  return operand == Type::fp16 ? 15 : 0;
}

/// In fp16, where matrix instructions take subnormal numbers as 0: dS is scaled by this too, so that a number
/// which would be subnormal is not. A tile in which it is then too large for fp16 goes without.
constexpr REGARD_INLINE float ds_scale_of_subnormals() {
  return 1 << 11;
}

struct GpuBackwardSchedule {
  // Rows of delta, lse_log2 and grad_q_sum are allocated in whole tiles (padded_row): for each (batch, head)
  // or, with varlen, for each head.
  i64 padded_rows = 0;
  i64 grad_q_columns = 0;  // of grad_q_sum: d, rounded up
  i64 grad_k_columns = 0;  // of grad_k_sum and grad_v_sum
  i64 grad_v_columns = 0;
  i64 part_heads = 0;      // query heads of a group that one block handles
  i64 zeroed_vectors = 0;  // 16-byte vectors, from `zeroed` on, that prepare sets to zero
  i32 block_q = 0;         // rows of a tile
  i32 side_by_side = 1;    // (batch, K/V head) pairs, or parts of their groups, that run together
  i32 keys_descend = 0;    // 1: blocks of the last keys run first
  GradQOrder grad_q_order = GradQOrder::rows;
  i32 grad_q_slices = 1;    // consecutive slices of a tile (GradQTile)
  i32 first_stores = 0;     // 1: the first block to reach a tile stores its dQ; 0: sums start as zeros
  i32 bias_in_turn = 0;     // 1: one block handles everything that shares a bias gradient
  float ds_scale = 1;       // scales dS before it is rounded, and so the sums of dQ and dK. A power of two
  float p_exponent = 0;     // P is scaled by 2^p_exponent, and so are the sums of dV
  float p_scale = 1;        // 2^-p_exponent
  float grad_p_factor = 1;  // scales dP - D, so that this P gives a dS scaled by ds_scale
  i32 clear_grad_bias = 0;  // 1: prepare writes zeros where no tile of scores may be computed

  float* delta = nullptr;          // rowsum(dO * O); 0 past the last row of a sequence
  float* lse_log2 = nullptr;       // LSE in powers of two, minus p_exponent; +infinity where the row sees no
                                   // key or does not exist
  void* zeroed = nullptr;          // the sums and counters from here on start as zeros
  float* grad_q_sum = nullptr;     // not yet multiplied by the scale
  float* grad_k_sum = nullptr;     // if several blocks share a K/V head's keys: [b, hk, sk, columns] or,
  float* grad_v_sum = nullptr;     // varlen, [hk, tk, columns]; null: blocks store dK, dV. Not yet
                                   // multiplied by the scale or dropout's factor
  float* grad_bias_sum = nullptr;  // fp32 image of a broadcast bias's gradient
  u32* tickets = nullptr;          // unordered, first block stores: how many blocks have reached a tile
  u32* turns = nullptr;  // how many blocks have added to a tile, which waits for its turn. With tickets: 1
                         // once the first has stored. null: unordered, onto zeros
};

using BackwardArguments = KernelArguments<GpuBackwardSchedule>;

/// The number of a sequence's first tile. Every sequence starts on a tile boundary.
template <class Sequence>
REGARD_INLINE i64 first_tile(const BackwardArguments& a, const Sequence& sequence, i64 head) {
  // In 32 bits, because a 64-bit division is a function call.
  const u32 block_q = static_cast<u32>(a.block_q), of_head = static_cast<u32>(a.padded_rows) / block_q;
  if (!a.offsets_q) return (sequence.batch * a.hq + head) * of_head;
  return head * of_head + static_cast<u32>(sequence.first_q) / block_q + sequence.batch;
}

/// The padded row of a sequence's first row.
template <class Sequence>
REGARD_INLINE i64 first_padded_row(const BackwardArguments& a, const Sequence& sequence, i64 head) {
  return first_tile(a, sequence, head) * a.block_q;
}

}  // namespace regard
