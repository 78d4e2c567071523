// A thread's scratch memory in append.cpp.
#pragma once

#include "kernels/arguments.h"

namespace regard {

struct AppendLayout {
  /// Room for whole vectors of any target.
  static constexpr i64 padded(i64 n) { return (n + 15) / 16 * 16; }

  i64 columns, rotated;  // of a row in fp32; of a row of both tables
  constexpr AppendLayout(i64 d, i64 dv, i64 rotary)
      : columns(padded(d > dv ? d : dv)), rotated(padded(rotary / 2)) {}

  constexpr i64 row() const { return 0; }
  constexpr i64 cos() const { return columns * 4; }
  constexpr i64 sin() const { return cos() + rotated * 4; }
  /// The row as the cache has it.
  constexpr i64 converted() const { return sin() + rotated * 4; }
  constexpr i64 bytes() const { return converted() + columns * 4; }
};

}  // namespace regard
