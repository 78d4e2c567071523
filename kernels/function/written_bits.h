// Where the bits of a mask that is a function are written, with their map of tiles (kernels/tile_map.h).
#pragma once

#include "kernels/arguments.h"

namespace regard {

/// Visibility bits that a stage writes for the stages after it; dimensions that share bits have stride 0.
struct WrittenBits {
  u32* words;  // null: none
  i64 batch, head, row;
  i64 map;  // words from the first one to the map
};

}  // namespace regard
