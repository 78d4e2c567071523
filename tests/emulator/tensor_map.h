// The contents of a tensor map in the emulator (NVIDIA's is opaque), and the boxes that it describes.
#pragma once

#include <array>
#include <cstdint>

#include "device/cuda/driver.h"

namespace emulator {

struct TensorMap {
  std::uint64_t address;
  std::uint32_t rank, element_bytes;
  std::uint64_t extent[5];
  std::uint64_t stride[4];  ///< bytes, from the second dimension on
  std::uint32_t box[5];

  std::uint32_t bytes_of_box() const;
};
static_assert(sizeof(TensorMap) <= sizeof(regard::cuda::TensorMap));

/// Copies a box to shared memory, at offset `place` from its start `memory`: consecutive rows of 128 bytes,
/// whose 16-byte parts are permuted by their address (swizzle_128_bytes). Zeros outside the tensor.
void copy_box(const TensorMap&, const std::array<std::int32_t, 5>& coordinates, std::uint8_t* memory,
              std::uint32_t place);

/// The reverse: from shared memory into the tensor; what is outside the tensor is left out.
void store_box(const TensorMap&, const std::array<std::int32_t, 5>& coordinates, const std::uint8_t* memory,
               std::uint32_t place);

/// Where byte `at` of shared memory is stored when it is swizzled.
inline std::uint32_t swizzled(std::uint32_t at) {
  return at ^ (at >> 7 & 7) << 4;
}

}  // namespace emulator
