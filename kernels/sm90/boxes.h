// What the plan must know about all kernels for Hopper: tiles are moved to and from shared memory in boxes
// that tensor maps describe.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard {

/// The numbers of a tile that its layout depends on.
struct Sm90TileShape {
  i64 bytes;  // of a number of Q, K and V
  i64 d, dv, block_q, block_k, stages;
};

struct Sm90Boxes {
  static constexpr i64 box_bytes = 128;        // of a row in a box: what the swizzle spans
  static constexpr i64 group_rows = 64;        // rows of a warpgroup's product
  static constexpr i64 alignment = 1024;       // of a tile: eight rows
  static constexpr i64 shared_bytes = 232448;  // of a block
  static constexpr i64 most_map_rows = 1
                                       << 30;  // of a sequence in a ragged map (plan/kernels/sm90_boxes.cpp)

  // The long form of a soft cap's tanh is off by 2^-22 of the cap: half of the rounding of an fp16 weight.
  static constexpr float largest_soft_cap = 1024;
};

}  // namespace regard
