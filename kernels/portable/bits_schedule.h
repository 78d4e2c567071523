// The schedule that the plan passes to bits.cu, with the tensors of a call, which the engine adds
// (src/engine/bind_function.cpp).
#pragma once

#include "kernels/function/written_bits.h"
#include "kernels/kernel_arguments.h"
#include "kernels/tile_map.h"

namespace regard {

/// A tensor that a mask reads. Dimensions that it does not have are of size 1.
struct MaskTensor {
  const void* data;
  i64 dtype;  // enum regard_dtype of include/regard/regard.h
  i64 sizes[4], strides[4];
};

/// What a mask reads besides its place.
struct MaskCall {
  u32 numbers[16];
  MaskTensor tensors[8];
};

struct PortableBitsSchedule : WrittenBits {
  i64 tiles;  // of a block: neighbours in a row of the map, at most most_mask_tiles
  MaskCall call;
  u8 captured[8];  // which of the problem's tensors each is; 8: there is none
};

using PortableBitsArguments = KernelArguments<PortableBitsSchedule>;

/// In each tile of its block a thread has one word of a row; the threads together have all words of the tile.
constexpr i32 mask_threads = map_tile * (map_tile / 32), most_mask_tiles = 16;
/// Bytes of shared memory of a block: its words, and a little for each wave and tile.
constexpr i32 mask_memory = map_tile * (2 * most_mask_tiles + 1) * 4 + 64;

}  // namespace regard
