// How the plan divides backward on a GPU, and what its stages leave for each other in the workspace: prepare
// makes what each row of queries needs, a main kernel adds to the sums, convert rounds them.
#pragma once

#include "kernels/inline.h"
#include "kernels/kernel_arguments.h"

namespace regard {

/// How a tile of grad_q_sum lies in memory: as whoever adds to it has its sums in registers, so that 16 bytes
/// of a thread lie beside those of its neighbours. rows: block_q rows of all columns. fragments: slices of 64
/// rows each, and of a part of the columns where there are more slices than that makes; a slice is the sums
/// of a warpgroup's matrix product, float4 number i * 128 + t of it being the sums 4i to 4i + 3 of thread t.
/// Slices of one part come one after the other.
enum class GradQOrder : i32 { rows, fragments };

struct GradQTile {
  i32 rows, columns, slices;

  static constexpr i32 slice_length = 64, warpgroup = 128;

  /// Where the sum of a row and a column is, in floats.
  template <GradQOrder order>
  constexpr REGARD_INLINE i32 place(i32 row, i32 column) const {
    if (order == GradQOrder::rows) return row * columns + column;
    const i32 row_parts = rows / slice_length, width = columns / (slices / row_parts);
    const i32 slice = row / slice_length + column / width * row_parts;
    const i32 thread = row % slice_length / 16 * 32 + row % 8 * 4 + column % 8 / 2;
    const i32 vector = column % width / 8 * warpgroup + thread;
    return slice * slice_length * width + vector * 4 + row % 16 / 8 * 2 + column % 2;
  }
};

/// P of a row that sees thousands of keys would lose digits as fp16, whose least normal number is 2^-14. As P
/// is at most 1, the largest is half of what fp16 holds. Of a DType.
template <class Type>
constexpr REGARD_INLINE i32 p_exponent_of(Type operand) {
  return operand == Type::fp16 ? 15 : 0;
}

struct GpuBackwardSchedule {
  // Rows of delta, lse_log2 and grad_q_sum go in whole tiles (padded_row): of each (batch, head), or, varlen,
  // of each head.
  i64 padded_rows = 0;
  i64 grad_q_columns = 0;  // of grad_q_sum: d, rounded up
  i64 grad_k_columns = 0;  // of grad_k_sum and grad_v_sum
  i64 grad_v_columns = 0;
  i64 part_heads = 0;      // query heads of a group that a block goes through
  i64 zeroed_vectors = 0;  // of 16 bytes, from `zeroed` on, that prepare sets to zero
  i32 block_q = 0;         // rows of a tile
  i32 side_by_side = 1;    // (batch, K/V head) pairs, or parts of their groups, that go together
  i32 keys_descend = 0;    // 1: blocks of the last keys go first
  GradQOrder grad_q_order = GradQOrder::rows;
  i32 grad_q_slices = 1;    // of a tile, one behind the other (GradQTile)
  i32 first_stores = 0;     // 1: the first block that comes to a tile stores its dQ; 0: sums begin as zeros
  i32 bias_in_turn = 0;     // 1: a block goes through all that share a bias's gradient
  float grad_s_factor = 1;  // of dS before it is rounded; the sums of dQ and dK have it. A power of two
  float p_exponent = 0;     // P is made 2^p_exponent times as large; the sums of dV have that
  float p_scale = 1;        // 2^-p_exponent
  float grad_p_factor = 1;  // of dP - D, which makes dS of that P and has grad_s_factor
  i32 clear_grad_bias = 0;  // 1: prepare writes zeros where perhaps no tile of scores is computed

  float* delta = nullptr;          // rowsum(dO * O); 0 behind the last row of a sequence
  float* lse_log2 = nullptr;       // LSE in powers of two, less p_exponent; +infinity where the row sees no
                                   // key, or is none
  void* zeroed = nullptr;          // the sums and counters from here on begin as zeros
  float* grad_q_sum = nullptr;     // before the scale
  float* grad_k_sum = nullptr;     // [hk, keys, columns] where several blocks share a K/V head's keys,
  float* grad_v_sum = nullptr;     // [b, hk, sk, ..] or, varlen, [hk, tk, ..]; null: blocks store dK, dV.
                                   // Before the scale, and before dropout's factor
  float* grad_bias_sum = nullptr;  // fp32 image of a broadcast bias's gradient
  u32* tickets = nullptr;  // in any order, where the first stores: how many blocks have come to a tile
  u32* turns = nullptr;    // how many blocks have added to a tile, which waits for its turn. With tickets: 1
                           // once the first has stored. null: in any order, on zeros
};

using BackwardArguments = KernelArguments<GpuBackwardSchedule>;

/// The number of a sequence's first tile. Every sequence begins with a whole one.
template <class Sequence>
REGARD_INLINE i64 first_tile(const BackwardArguments& a, const Sequence& sequence, i64 head) {
  // In 32 bits, as a division in 64 is a call.
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
