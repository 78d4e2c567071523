// What a row sees as bits, one for each key.
#pragma once

#include "kernels/machine/number.h"
#include "kernels/window.h"

namespace regard {

/// Which of the 32 keys from `key` on a row sees, the first in the lowest bit.
REGARD_DEVICE u32 visible_bits(const VisibleKeys32& row, i32 key) {
  return (low_bits(row.window.end - key) & ~low_bits(row.window.begin - key)) |
         (low_bits(row.sinks.end - key) & ~low_bits(row.sinks.begin - key));
}

}  // namespace regard
