// The tile of forward.cu: its sizes, and how rows of a tensor come to shared memory.
#pragma once

#include "kernels/portable/forward_layout.h"
#include "kernels/portable/machine/copy.h"
#include "kernels/portable/machine/element.h"

namespace regard {

/// What the numbers of Q, K, V and of the weights are multiplied as: fp8 as fp16, which holds all of it.
constexpr DType operand = bytes_of<key::dtype> == 1 ? DType::fp16 : key::dtype;
constexpr i32 operand_bytes = bytes_of<operand>;

constexpr i32 block_q = key::block_q, block_k = key::block_k, threads = key::warps * wave;
constexpr portable::ForwardLayout layout(bytes_of<key::dtype>, key::d, key::dv, key::block_q, key::block_k,
                                         key::block_d, key::block_dv, key::stages, key::warps_across);
constexpr i32 block_d = layout.block_d, block_dv = layout.block_dv, stages = layout.stages;
constexpr i32 steps_d = layout.d / block_d;
static_assert(steps_d == 1 || stages == 1, "K in parts has one buffer");

/// A wave has whole rows of the tile, so that softmax needs no other wave. Or some waves share rows: each has
/// a part of the keys, and of the columns of O then, and all have twice as many rows. They read that much
/// less of K and V from shared memory.
constexpr i32 across = key::warps_across > 1 ? key::warps_across : 1;
constexpr i32 wave_rows = block_q / key::warps * across, row_tiles = wave_rows / Fragment::rows;
constexpr i32 wave_keys = block_k / across, key_tiles = wave_keys / Fragment::columns;
constexpr i32 wave_columns = block_dv / across, column_tiles = wave_columns / Fragment::columns;
static_assert(row_tiles > 0 && row_tiles * Fragment::rows * key::warps == block_q * across);
static_assert(wave_keys % 16 == 0 && wave_columns % 16 == 0);
static_assert(across == 1 || (across == 2 && key::warps % 2 == 0 && operand != DType::fp32));

using Scores = Fragment[row_tiles][key_tiles];
using Output = Fragment[row_tiles][column_tiles];
using RowNumbers = float[row_tiles][Fragment::halves];

/// The first row of this thread's wave within the tile, and which part of the keys and columns it has.
REGARD_DEVICE i32 row_of_wave() {
  return thread() / wave / across * wave_rows;
}
REGARD_DEVICE i32 part_of_wave() {
  return across > 1 ? thread() / wave % across : 0;
}

/// The first column of O that this wave has, and where its n-th column tile is from there: pairs of them,
/// which are multiplied together, go around among the waves.
REGARD_DEVICE i32 column_of_wave() {
  return part_of_wave() * 2 * Fragment::columns;
}
constexpr REGARD_INLINE i32 column_offset(i32 n) {
  return (n / 2 * 2 * across + n % 2) * Fragment::columns;
}

/// This thread's first row within the tile, and where its others are from there.
REGARD_DEVICE i32 row_in_tile() {
  return row_of_wave() + Fragment::row();
}
constexpr REGARD_INLINE i32 row_offset(i32 m, i32 half) {
  return m * Fragment::rows + half * Fragment::row_step;
}

/// function(m, half) for each of a thread's rows.
template <class Function>
REGARD_DEVICE void each_row(Function function) {
#pragma unroll
  for (i32 m = 0; m < row_tiles; ++m)
#pragma unroll
    for (i32 half = 0; half < Fragment::halves; ++half) function(m, half);
}

/// Whether x holds for any of those who decide together: a wave, or the block where waves share rows.
REGARD_DEVICE bool any_together(bool x) {
  return across > 1 ? __syncthreads_or(x) != 0 : any_in_wave(x);
}

/// The two products of attention, by matrix instructions (product.h) or not (product_fp32.h).
template <bool by_matrix>
struct Products;

/// Rows of one head of a tensor in global memory.
struct Source {
  const u8* rows;
  i64 pitch;  // bytes from one row to the next
  bool aligned;

  REGARD_DEVICE Source(const u8* first, i64 stride)
      : rows(first),
        pitch(stride * bytes_of<key::dtype>),
        aligned(operand == key::dtype && (reinterpret_cast<u64>(first) | static_cast<u64>(pitch)) % 16 == 0) {
  }

  REGARD_DEVICE const u8* at(i32 row, i32 column) const {
    return rows + row * pitch + column * bytes_of<key::dtype>;
  }
};

/// 16 bytes of operands from numbers that may lie anywhere.
REGARD_DEVICE void convert_vector(u32 to, const u8* from, i32 count) {
  u32 words[4] = {};
  constexpr i32 per_vector = 16 / operand_bytes;
#pragma unroll
  for (i32 i = 0; i < per_vector; ++i) {
    if (i >= count) break;
    if constexpr (operand_bytes == 4)
      words[i] = reinterpret_cast<const u32*>(from)[i];
    else if constexpr (bytes_of<key::dtype> == 2)
      words[i / 2] |= u32{reinterpret_cast<const u16*>(from)[i]} << 16 * (i % 2);
    else
      words[i / 2] |= (halves_of_fp8<key::dtype>(from[i]) & 0xffffu) << 16 * (i % 2);
  }
  store_vector(to, words);
}

/// The rows and columns of a source that a tile has; what lies from the ends on is zero.
struct TileBounds {
  i32 first_row, end_row, first_column, end_column;
};

/// Rows of whole lines are swizzled: a vector's place in its line is exclusive or of its own and its row's
/// number.
template <i32 row_bytes>
constexpr bool swizzled = row_bytes % portable::ForwardLayout::line == 0;

/// Where a vector of a tile is; tiles begin with a line.
template <i32 row_bytes>
REGARD_DEVICE u32 place(i32 row, i32 byte) {
  return static_cast<u32>(row * row_bytes + (swizzled<row_bytes> ? byte ^ row % 8 * 16 : byte));
}
/// From a vector's place to the one `bytes` further on in its row, if they share no bits with where it is in
/// its line but for the swizzle.
template <i32 row_bytes>
REGARD_DEVICE u32 along(u32 place, i32 bytes) {
  constexpr i32 line = portable::ForwardLayout::line;
  return swizzled<row_bytes> ? (place ^ bytes % line) + bytes / line * line : place + bytes;
}

constexpr REGARD_INLINE i32 power_of_two_in(i32 n) {
  return n & -n;
}

/// How many numbers of a vector are there, with so many rows and columns left.
template <i32 per_vector>
REGARD_DEVICE i32 count_there(i32 rows, i32 columns) {
  return rows > 0 ? larger(smaller(columns, per_vector), 0) : 0;
}

/// `rows` rows of `columns` columns to rows of `row_bytes` in shared memory.
template <i32 rows, i32 columns, i32 row_bytes>
REGARD_DEVICE void load_tile(u32 to, Source source, const TileBounds& bounds) {
  constexpr i32 per_vector = 16 / operand_bytes, vectors = columns / per_vector;
  const i32 number = thread();
  i32 rows_left = bounds.end_row - bounds.first_row, columns_left = bounds.end_column - bounds.first_column;
  if (!source.aligned) {  // rare, or fp8: small rather than fast
#pragma unroll 1
    for (i32 i = number; i < rows * vectors; i += threads) {
      const i32 row = i / vectors, column = i % vectors * per_vector;
      convert_vector(to + place<row_bytes>(row, column * operand_bytes),
                     source.at(bounds.first_row + row, bounds.first_column + column),
                     count_there<per_vector>(rows_left - row, columns_left - column));
    }
    return;
  }
  constexpr i32 across = smaller(power_of_two_in(vectors), wave), down = threads / across;
  static_assert(power_of_two_in(down) == down, "a row's number modulo 8 has its first one's bits beside i's");
  const i32 row = number / across, column = number % across * per_vector;
  const bool all_columns = columns_left >= columns;
  const u8* from = source.at(bounds.first_row + row, bounds.first_column + column);
  to += place<row_bytes>(row, column * operand_bytes);
  rows_left -= row, columns_left -= column;
#pragma unroll 8
  for (i32 i = 0; i < rows; i += down, from += down * source.pitch) {
    if (rows % down != 0 && row + i >= rows) break;
    const u32 row_to = (swizzled<row_bytes> ? to ^ i % 8 * 16 : to) + static_cast<u32>(i * row_bytes);
#pragma unroll
    for (i32 c = 0; c < columns; c += across * per_vector)
      copy_vector(row_to + c * operand_bytes, from + c * operand_bytes,
                  (all_columns ? (rows_left > i ? per_vector : 0)
                               : count_there<per_vector>(rows_left - i, columns_left - c)) *
                      operand_bytes);
  }
}

}  // namespace regard
