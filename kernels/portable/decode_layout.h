// How decode.cu divides its block's shared memory, and which vectors of V a lane reads. The plan requests the
// memory with the same constants.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard::portable {

/// Sizes in bytes unless said otherwise. Keys go through registers alone: what is shared is what the rows see
/// and, at the end, the sums of each wave.
struct DecodeLayout {
  static constexpr i64 rows = 16;  // of a block: those of one matrix product
  static constexpr i64 visible = rows * 16, common = 32, range = visible + common;

  i64 vector;   // of V that a lane reads at once: eight lanes read a row of 128 bytes, or of 64
  i64 columns;  // of V and O, in whole reads of eight lanes
  i64 row;      // numbers from one row of sums to the next
  i64 total;

  constexpr REGARD_INLINE DecodeLayout(i64 dv, i64 bytes, i64 warps, bool row_max)
      : vector(dv * bytes % 128 == 0 ? 16 : 8),
        columns((dv * bytes + 8 * vector - 1) / (8 * vector) * 8 * vector / bytes),
        row(columns + 4),
        total(range + warps * rows * (row + 2 + (row_max ? 1 : 0)) * 4) {}
};

}  // namespace regard::portable
