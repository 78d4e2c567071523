// Which numbers of a matrix product a thread has.
#pragma once

#include "kernels/hip/thread.h"

namespace regard {

/// The sums of an edge x edge matrix product in the registers of a wave. A lane has one row, and of each
/// eight of its columns four: column column() + column_offset(i) is x[0][i]. Two lanes share a row.
struct Fragment {
  static constexpr i32 rows = edge, columns = edge;
  static constexpr i32 halves = 1, width = edge / 2;  // rows and columns of a thread
  static constexpr i32 neighbours = 4;                // of its columns

  float x[halves][width];

  /// The row and the column of this thread's [0][0]; the others follow at fixed distances.
  REGARD_DEVICE static i32 row() { return lane() % edge; }
  REGARD_DEVICE static i32 column() { return lane() / edge * neighbours; }
  static constexpr i32 row_step = 0;
  static constexpr REGARD_INLINE i32 column_offset(i32 i) { return i / neighbours * 8 + i % neighbours; }

  /// The lane that holds this thread's rows from column `n` * neighbours on.
  REGARD_DEVICE static i32 lane_of(i32 n) { return lane() % edge + n * edge; }
  REGARD_DEVICE static bool first_of_row() { return lane() < edge; }
};

/// The reductions go over the lanes that share a row.
REGARD_DEVICE float reduce_max(float x) {
  return fmaxf(x, bits_as<float>(from_other_part(bits_as<u32>(x))));
}
REGARD_DEVICE float reduce_sum(float x) {
  return x + bits_as<float>(from_other_part(bits_as<u32>(x)));
}
REGARD_DEVICE u32 reduce_or(u32 bits) {
  return bits | from_other_part(bits);
}

}  // namespace regard
