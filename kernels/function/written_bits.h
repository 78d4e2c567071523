// Where the bits of a mask that is a function are written.
#pragma once

#include "kernels/arguments.h"

namespace regard {

/// Visibility bits that a stage writes for the stages after it; dimensions that share bits have stride 0.
struct WrittenBits {
  u32* words;  // null: none
  i64 batch, head, row;
};

}  // namespace regard
