// How a wave loads the operands of its matrix products from shared memory.
#pragma once

#include "kernels/hip/matrix.h"
#include "kernels/hip/memory.h"
#include "kernels/portable/dealt_columns.h"
#include "kernels/portable/shared_operand.h"
#include "kernels/portable/swizzle.h"

namespace regard {

/// How many neighbouring rows or columns a lane reads at once, to sort them into as many operands: two
/// numbers of different rows in memory make a word of an operand. An instruction that reads transposed sorts
/// them itself.
template <class Operand, i32 tiles>
constexpr i32 columns_at_once = !Operand::transposed || target::transposed_reads ? 1
                                : tiles % 4 == 0                                 ? 4
                                : tiles % 2 == 0                                 ? 2
                                                                                 : 1;

/// The rows or columns of an operand that a wave multiplies, of which each `together` fragments are loaded
/// together.
template <class Operand, i32 together>
class SharedNumbers {
  static constexpr i32 row_bytes = Operand::row_bytes;
  static constexpr bool halves_sum = !target::wmma_twice;  // each part of the wave has half of the sum

 public:
  /// From row or column `first` on; `of_lane`: which one of a fragment is this lane's.
  REGARD_DEVICE SharedNumbers(u32 operand, i32 first, i32 of_lane) {
    const i32 part = halves_sum ? lane() / edge : 0;
    if constexpr (!Operand::transposed) {
      first_ = operand + shared_offset<row_bytes>(of_lane, part * 16) + static_cast<u32>(first * row_bytes);
      return;
    }
    const i32 row = part * (Operand::order == SumOrder::p ? 4 : 8);
    if constexpr (target::transposed_reads) {
      // Of each 16 lanes, four give the addresses of a row's columns; each gets the column of its own number.
      const i32 column = first + of_lane / 16 * 16 + lane() % 4 * 4;
      first_ = operand + shared_offset<row_bytes>(row + lane() % 16 / 4, column * 2);
    } else {
      const i32 column = first + together * of_lane, byte = column * 2;
      first_ = operand + shared_offset<row_bytes>(row, together > 1 ? byte : byte & ~3);
      odd_ = column % 2;
    }
  }

  /// The i-th `depth` of the sum, of the fragments that begin `distance` rows or columns further.
  REGARD_DEVICE void load(Left (&x)[together], i32 distance, i32 i) const {
    // clang reads the operands of all unrolled products ahead. Where both parts of the wave have whole
    // operands there are too few registers for that, so no read may move before this fence.
    if constexpr (target::wmma_twice) __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront", "local");
    if constexpr (!Operand::transposed)
      load_row(x[0], distance, i * depth * 2);
    else if constexpr (target::transposed_reads)
      read_transposed(x[0], i * depth, distance * 2);
    else
      load_transposed(x, i * depth, distance * 2);
  }

 private:
  REGARD_DEVICE u32 at(i32 rows, i32 bytes) const { return moved<row_bytes>(first_, rows, bytes); }

  REGARD_DEVICE void load_row(Left& x, i32 rows, i32 bytes) const {
#pragma unroll
    for (i32 vector = 0; vector < operand_words / 4; ++vector) {
      u32 words[4];
      load_words(words, at(rows, bytes + vector * 16));
#pragma unroll
      for (i32 i = 0; i < 4; ++i) x[4 * vector + i] = words[i];
    }
  }

  REGARD_DEVICE void read_transposed(Left& x, i32 rows, i32 bytes) const {
#pragma unroll
    for (i32 i = 0; i < operand_words; i += 2) {
      u32 words[2];
      load_column<Short4>(words, at(rows + row(2 * i), bytes));
      x[i] = words[0], x[i + 1] = words[1];
    }
  }

  REGARD_DEVICE void load_transposed(Left (&x)[together], i32 rows, i32 bytes) const {
    constexpr i32 words = together > 1 ? together / 2 : 1;
    constexpr u32 low_halves = 0x05040100u, high_halves = 0x07060302u;
#pragma unroll
    for (i32 i = 0; i < operand_words; ++i) {
      u32 first[words], second[words];
      load_words(first, at(rows + row(2 * i), bytes));
      load_words(second, at(rows + row(2 * i + 1), bytes));
#pragma unroll
      for (i32 n = 0; n < together; ++n) {
        const bool odd = together > 1 ? n % 2 != 0 : odd_ != 0;
        x[n][i] = __builtin_amdgcn_perm(second[n / 2], first[n / 2], odd ? high_halves : low_halves);
      }
    }
  }
  /// The row of a lane's i-th number of the sum, from its first on.
  static constexpr REGARD_INLINE i32 row(i32 i) {
    return Operand::order == SumOrder::p && halves_sum ? i / 4 * 8 + i % 4 : i;
  }

  u32 first_;
  i32 odd_ = 0;
};

/// A of a wave whose first row is `row`.
template <class Operand, i32 tiles>
class SharedLeft {
 public:
  static constexpr i32 interleave = columns_at_once<Operand, tiles>;
  /// clang reads the operands of all unrolled steps ahead, for which RDNA does not have the registers.
  static constexpr i32 most_steps = edge == 16 ? 1 : all_steps;

  REGARD_DEVICE SharedLeft(u32 operand, i32 row) : numbers_(operand, row, lane() % edge) {}

  /// The i-th `depth` of the sum, of all row tiles.
  REGARD_DEVICE void load(Left (&x)[tiles], i32 i) const {
#pragma unroll
    for (i32 m = 0; m < tiles; m += interleave) {
      Left some[interleave];
      numbers_.load(some, m * edge, i);
#pragma unroll
      for (i32 j = 0; j < interleave; ++j)
#pragma unroll
        for (i32 word = 0; word < operand_words; ++word) x[m + j][word] = some[j][word];
    }
  }

 private:
  SharedNumbers<Operand, interleave> numbers_;
};

/// A in the registers of a wave: rows of `columns` numbers, which it reads from anywhere.
template <i32 tiles, i32 columns>
class RegisterLeft {
  static constexpr i32 steps = columns / depth;

 public:
  static constexpr i32 most_steps = all_steps;  // registers cannot be indexed

  /// read(words, row, column): 16 bytes of a row from this column on. All reads are on their way at once.
  template <class Read>
  REGARD_DEVICE void read(Read read) {
#pragma unroll
    for (i32 i = 0; i < steps; ++i)
#pragma unroll
      for (i32 m = 0; m < tiles; ++m) read(x_[m][i], row(m), column(i));
  }
  /// Likewise, one after the other, in less code: the steps rotate through the last one.
  template <class Read>
  REGARD_DEVICE void read_in_turn(Read read) {
#pragma unroll 1
    for (i32 i = 0; i < steps; ++i) {
#pragma unroll
      for (i32 m = 0; m < tiles; ++m) {
#pragma unroll
        for (i32 word = 0; word < operand_words; ++word) {
#pragma unroll
          for (i32 step = 0; step + 1 < steps; ++step) x_[m][step][word] = x_[m][step + 1][word];
        }
        read(x_[m][steps - 1], row(m), column(i));
      }
    }
  }

  /// The i-th `depth` of the sum, of all row tiles.
  REGARD_DEVICE void load(Left (&to)[tiles], i32 i) const {
#pragma unroll
    for (i32 m = 0; m < tiles; ++m)
#pragma unroll
      for (i32 word = 0; word < operand_words; ++word) to[m][word] = x_[m][i][word];
  }

 private:
  REGARD_DEVICE static i32 row(i32 m) { return m * edge + lane() % edge; }
  REGARD_DEVICE static i32 column(i32 i) { return i * depth + lane() / edge * 8; }

  Left x_[tiles][steps];
};

/// Column tiles that are loaded together. `by_input`: they are multiplied with an input, not with P or dS,
/// which kernels scale so that subnormal numbers do not matter.
template <i32 count, bool by_input>
struct Right {
  static constexpr i32 tiles = count;

  Left x[tiles];

  /// Adds to one row of column tiles.
  template <DType operand>
  REGARD_DEVICE void multiply_add(Fragment* c, const Left& a) const {
#pragma unroll
    for (i32 i = 0; i < tiles; ++i) regard::multiply_add<operand>(c[i], a, x[i]);
    if constexpr (flushes_inputs) {
      const bool of_left = by_input && has_subnormal(&a, 1);
      if (!any_in_wave(of_left || has_subnormal(x, tiles))) return;
#pragma unroll
      for (i32 i = 0; i < tiles; ++i)
        if (any_in_wave(has_subnormal(x + i, 1))) add_subnormals<false>(c[i], a, x[i]);
      if constexpr (by_input) {
        if (!any_in_wave(of_left)) return;
#pragma unroll
        for (i32 i = 0; i < tiles; ++i) add_subnormals<true>(c[i], a, x[i]);
      }
    }
  }
};

/// B of the `part`-th of the `across` waves that share rows.
template <class Operand, i32 tiles, i32 across>
class SharedRight {
 public:
  static constexpr i32 tiles_at_once = columns_at_once<Operand, tiles>, interleave = tiles_at_once;
  using Columns = DealtColumns<SharedRight, across>;
  /// P and dS are multiplied with transposed inputs, and inputs with others.
  using Right = regard::Right<tiles_at_once, !Operand::transposed>;

  REGARD_DEVICE SharedRight(u32 operand, i32 part)
      : numbers_(operand, Columns::of_part(part), column_of_lane()) {}

  /// The i-th `depth` of the sum, from the n-th column tile on.
  REGARD_DEVICE void load(Right& y, i32 n, i32 i) const { numbers_.load(y.x, Columns::of_tile(n), i); }

 private:
  SharedNumbers<Operand, tiles_at_once> numbers_;
};

/// A step of P, as a thread has packed it, as a left operand. Chips that take an operand twice take the
/// numbers of both parts of the wave in the order of memory.
REGARD_DEVICE void load_packed(Left& to, const u32 (&packed)[4]) {
  if constexpr (target::wmma_twice) {
    const bool second = lane() >= edge;
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      const u32 own = packed[i], other = from_other_part(own);
      const i32 word = i / 2 * 4 + i % 2;
      to[word] = second ? other : own;
      to[word + 2] = second ? own : other;
    }
  } else {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) to[i] = packed[i];
  }
}

}  // namespace regard
