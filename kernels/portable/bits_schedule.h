// The schedule that the plan passes to bits.cu.
#pragma once

#include "kernels/function/written_bits.h"
#include "kernels/kernel_arguments.h"
#include "kernels/portable/mask_call.h"
#include "kernels/tile_map.h"

namespace regard {

struct PortableBitsSchedule : WrittenBits, MaskSchedule {
  i64 tiles;  // of a block: neighbours in a row of the map, at most most_mask_tiles
};

using PortableBitsArguments = KernelArguments<PortableBitsSchedule>;

/// In each tile of its block a thread has one word of a row; the threads together have all words of the tile.
constexpr i32 mask_threads = map_tile * (map_tile / 32), most_mask_tiles = 16;
/// Bytes of shared memory of a block: its words, and a little for each wave and tile.
constexpr i32 mask_memory = map_tile * (2 * most_mask_tiles + 1) * 4 + 64;

}  // namespace regard
