// Loads rows of a tensor into shared memory, and defines their layout there.
#pragma once

#include "kernels/machine/copy.h"
#include "kernels/portable/element.h"
#include "kernels/portable/forward_layout.h"
#include "kernels/portable/score_tile.h"
#include "kernels/portable/shared_operand.h"
#include "kernels/portable/swizzle.h"

namespace regard {

/// Computed from the constants of `config`. Not a variable, which compilers would lay out next to those that
/// kernels read.
constexpr REGARD_INLINE portable::TileShape tile_shape() {
  return {.bytes = bytes_of<config::dtype>,
          .d = config::d,
          .dv = config::dv,
          .block_q = config::block_q,
          .block_k = config::block_k,
          .block_d = config::block_d,
          .block_dv = config::block_dv,
          .stages = config::kv == config::dtype && config::descale == Descale::none ? config::stages : 1,
          .warps = config::warps,
          .warps_across = config::warps_across,
          .unit = wave / 2,
          .staged_bytes = target::mma_layout ? 0 : 160,
          .place_bytes = config::paged ? portable::key_place_bytes : 0,
          .factor_bytes = 4 * portable::factors_of_key(config::descale == Descale::token,
                                                       config::descale == Descale::columns, config::dv),
          .latent = portable::shares_tile(config::latent, config::d)};
}

/// Rows of one head of a tensor in global memory.
struct RowSource {
  const u8* rows;
  i64 pitch;  // bytes from one row to the next
  bool aligned;

  REGARD_DEVICE RowSource(const u8* first, i64 stride)
      : rows(first),
        pitch(stride * bytes_of<config::dtype>),
        aligned(operand == config::dtype &&
                (reinterpret_cast<u64>(first) | static_cast<u64>(pitch)) % 16 == 0) {}

  REGARD_DEVICE const u8* at(i32 row, i32 column) const {
    return rows + row * pitch + column * bytes_of<config::dtype>;
  }
};

/// Converts numbers at any alignment to 16 bytes of operands.
REGARD_DEVICE void convert_vector(u32 (&words)[4], const u8* from, i32 count) {
#pragma unroll
  for (i32 i = 0; i < 4; ++i) words[i] = 0;
  constexpr i32 per_vector = 16 / operand_bytes;
#pragma unroll
  for (i32 i = 0; i < per_vector; ++i) {
    if (i >= count) break;
    if constexpr (operand_bytes == 4)
      words[i] = global(reinterpret_cast<const u32*>(from))[i];
    else if constexpr (bytes_of<config::dtype> == 2)
      words[i / 2] |= u32{global(reinterpret_cast<const u16*>(from))[i]} << 16 * (i % 2);
    else
      words[i / 2] |= (halves_of_fp8<config::dtype>(global(from)[i]) & 0xffffu) << 16 * (i % 2);
  }
}

/// The rows and columns of a source that a tile covers; everything past the ends is zero.
struct TileBounds {
  i32 first_row, end_row, first_column, end_column;
};

constexpr REGARD_INLINE i32 power_of_two_in(i32 n) {
  return n & -n;
}

/// How many numbers of a vector exist, with so many rows and columns left.
template <i32 per_vector>
REGARD_DEVICE i32 count_there(i32 rows, i32 columns) {
  return rows > 0 ? larger(smaller(columns, per_vector), 0) : 0;
}

/// How the vectors of a tile are dealt out to threads: neighbours have neighbouring vectors.
template <i32 rows, i32 columns>
struct DealtVectors {
  static constexpr i32 per_vector = 16 / operand_bytes, vectors = columns / per_vector;
  static constexpr i32 across = smaller(power_of_two_in(vectors), wave), rows_together = threads / across;
  static_assert(power_of_two_in(rows_together) == rows_together,
                "a thread's rows share no bits of their numbers");
  /// How many vectors of a row a thread has, and of the tile.
  static constexpr i32 columns_of_thread = vectors / across;
  static constexpr i32 count = (rows + rows_together - 1) / rows_together * columns_of_thread;
};

/// function(to, from, bytes, number) for each vector of this thread of aligned rows, `unrolled` rows at a
/// time: where it belongs in rows of `row_bytes`, where it is, how much of it exists, and its number.
template <i32 rows, i32 columns, i32 row_bytes, i32 unrolled, class Function>
REGARD_DEVICE void each_vector(u32 to, RowSource source, const TileBounds& bounds, Function function) {
  using Dealt = DealtVectors<rows, columns>;
  constexpr i32 per_vector = Dealt::per_vector, across = Dealt::across, rows_together = Dealt::rows_together;
  i32 rows_left = bounds.end_row - bounds.first_row, columns_left = bounds.end_column - bounds.first_column;
  const i32 row = thread() / across, column = thread() % across * per_vector;
  const bool all_columns = columns_left >= columns;
  const u8* from = source.at(bounds.first_row + row, bounds.first_column + column);
  to += shared_offset<row_bytes>(row, column * operand_bytes);
  rows_left -= row, columns_left -= column;
#pragma unroll unrolled
  for (i32 i = 0; i < rows; i += rows_together, from += rows_together * source.pitch) {
    if (rows % rows_together != 0 && row + i >= rows) break;
    const u32 row_to = down<row_bytes>(to, i);
#pragma unroll
    for (i32 c = 0; c < columns; c += across * per_vector)
      function(row_to + c * operand_bytes, from + c * operand_bytes,
               (all_columns ? (rows_left > i ? per_vector : 0)
                            : count_there<per_vector>(rows_left - i, columns_left - c)) *
                   operand_bytes,
               i / rows_together * Dealt::columns_of_thread + c / (across * per_vector));
  }
}

/// Loads `rows` rows of `columns` columns into rows of `row_bytes` in shared memory.
template <i32 rows, i32 columns, i32 row_bytes>
REGARD_DEVICE void load_tile(u32 to, RowSource source, const TileBounds& bounds) {
  constexpr i32 per_vector = 16 / operand_bytes, vectors = columns / per_vector;
  const i32 number = thread();
  i32 rows_left = bounds.end_row - bounds.first_row, columns_left = bounds.end_column - bounds.first_column;
  if (!source.aligned) {  // rare, or fp8: small rather than fast
#pragma unroll 1
    for (i32 i = number; i < rows * vectors; i += threads) {
      const i32 row = i / vectors, column = i % vectors * per_vector;
      u32 words[4];
      convert_vector(words, source.at(bounds.first_row + row, bounds.first_column + column),
                     count_there<per_vector>(rows_left - row, columns_left - column));
      store_vector(to + shared_offset<row_bytes>(row, column * operand_bytes), words);
    }
    return;
  }
  // Not each_vector: with a function as its argument, NVIDIA's compilers need more registers for this loop.
  using Dealt = DealtVectors<rows, columns>;
  constexpr i32 across = Dealt::across, rows_together = Dealt::rows_together;
  const i32 row = number / across, column = number % across * per_vector;
  const bool all_columns = columns_left >= columns;
  const u8* from = source.at(bounds.first_row + row, bounds.first_column + column);
  to += shared_offset<row_bytes>(row, column * operand_bytes);
  rows_left -= row, columns_left -= column;
#pragma unroll 8
  for (i32 i = 0; i < rows; i += rows_together, from += rows_together * source.pitch) {
    if (rows % rows_together != 0 && row + i >= rows) break;
    const u32 row_to = down<row_bytes>(to, i);
#pragma unroll
    for (i32 c = 0; c < columns; c += across * per_vector)
      copy_vector(row_to + c * operand_bytes, from + c * operand_bytes,
                  (all_columns ? (rows_left > i ? per_vector : 0)
                               : count_there<per_vector>(rows_left - i, columns_left - c)) *
                      operand_bytes);
  }
}

/// A load of a tile in two halves, `begin` and `arrive`. A thread's vectors are on their way between them: to
/// shared memory or, on GPUs whose copies pass through registers, to registers. These hold one tile: copies
/// that are not `alone` are waited for at once.
template <i32 rows, i32 columns, i32 row_bytes, bool alone>
class TileCopy {
  static constexpr i32 count = DealtVectors<rows, columns>::count;
  static constexpr bool through_registers =
      alone && operand == config::dtype && count <= most_vectors_on_their_way;

 public:
  /// Nobody reads the memory at `to` until the copy has arrived.
  REGARD_DEVICE void begin(u32 to, const RowSource& source, const TileBounds& bounds) {
    begin_in_registers(source, bounds);
    if (!held_) load_at_once(to, source, bounds);
  }
  /// At most the last `pending` copies that began may still be on their way.
  template <i32 pending>
  REGARD_DEVICE void arrive(u32 to) const {
    wait_for_copies<pending>();
    if (held_) store(to);
  }

  /// The two halves of a copy to memory that is read in between: what is not held in registers is loaded only
  /// in the second one.
  REGARD_DEVICE void begin_in_registers(const RowSource& source, const TileBounds& bounds) {
    if constexpr (through_registers) {
      held_ = source.aligned;
      if (held_)
        each_vector<rows, columns, row_bytes, count>(
            0, source, bounds,
            [&](u32, const u8* from, i32 bytes, i32 i) { load_vector(words_[i], from, bytes); });
    }
  }
  REGARD_DEVICE void arrive(u32 to, const RowSource& source, const TileBounds& bounds) const {
    if (held_)
      store(to);
    else
      load_at_once(to, source, bounds);
  }

 private:
  REGARD_DEVICE static void load_at_once(u32 to, RowSource source, const TileBounds& bounds) {
    if constexpr (through_registers) source.aligned = false;  // registers hold aligned ones
    load_tile<rows, columns, row_bytes>(to, source, bounds);
  }
  REGARD_DEVICE void store(u32 to) const {
    if constexpr (through_registers)
      each_vector<rows, columns, row_bytes, count>(
          to, RowSource(nullptr, 0), {},
          [&](u32 to_vector, const u8*, i32, i32 i) { store_vector(to_vector, words_[i]); });
  }

  u32 words_[through_registers ? count : 1][4];
  bool held_ = false;
};

}  // namespace regard
