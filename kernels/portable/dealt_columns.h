// Which columns of a product a wave and its threads have, and which rows.
#pragma once

#include "kernels/machine/fragment.h"

namespace regard {

/// The columns of a thread are those of fragments of which `tiles_at_once` are loaded together, and dealt
/// out in turn to the `across` waves that share rows. `interleave`: neighbouring columns are in so many
/// fragments. Both are constants of the right operand.
template <class B, i32 across>
struct DealtColumns {
  static constexpr i32 interleave = B::interleave;
  /// How many neighbouring columns a thread has.
  static constexpr i32 run = Fragment::neighbours * interleave;

  /// The first column of the `part`-th wave, and from there the first of the n-th fragment.
  static constexpr REGARD_INLINE i32 of_part(i32 part) { return part * B::tiles_at_once * Fragment::columns; }
  static constexpr REGARD_INLINE i32 of_tile(i32 n) {
    return n / B::tiles_at_once * B::tiles_at_once * Fragment::columns * across +
           (interleave > 1 ? n % B::tiles_at_once : n % B::tiles_at_once * Fragment::columns);
  }
  /// This thread's first column, and from there that of x[half][i] of the n-th fragment.
  REGARD_DEVICE static i32 of_thread(i32 part) { return of_part(part) + interleave * Fragment::column(); }
  static constexpr REGARD_INLINE i32 offset(i32 n, i32 i) {
    return of_tile(n) + interleave * Fragment::column_offset(i);
  }

  /// Runs of a row of so many fragments. Those of all its threads are `run_columns` columns.
  static constexpr i32 run_columns = 8 * interleave;
  static constexpr REGARD_INLINE i32 runs(i32 tiles) { return tiles * Fragment::columns / run_columns; }

  /// function(offset, numbers): each run of a row of fragments.
  template <i32 tiles, class Function>
  REGARD_DEVICE static void each_run(const Fragment (&x)[tiles], i32 half, Function function) {
    each_run<tiles>(x, half, 0, runs(tiles), function);
  }
  /// Some of them.
  template <i32 tiles, class Function>
  REGARD_DEVICE static void each_run(const Fragment (&x)[tiles], i32 half, i32 begin, i32 end,
                                     Function function) {
    constexpr i32 of_tile = Fragment::columns / 8;
#pragma unroll
    for (i32 r = begin; r < end; ++r) {
      const i32 n = r / of_tile * interleave, i = r % of_tile * Fragment::neighbours;
      float numbers[run];
#pragma unroll
      for (i32 j = 0; j < run; ++j) numbers[j] = x[n + j % interleave].x[half][i + j / interleave];
      function(offset(n, i), numbers);
    }
  }
};

/// Likewise the rows of a thread, with the constants of the left operand.
template <class A>
struct DealtRows {
  static constexpr i32 interleave = A::interleave;

  REGARD_DEVICE static i32 of_thread() { return interleave * Fragment::row(); }
  static constexpr REGARD_INLINE i32 offset(i32 m, i32 half) {
    const i32 tile =
        interleave > 1 ? m / interleave * interleave * Fragment::rows + m % interleave : m * Fragment::rows;
    return tile + half * Fragment::row_step;
  }
};

}  // namespace regard
