// What a tensor map holds here, where NVIDIA's is opaque, and the boxes that it finds.
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

/// A box to shared memory, `place` bytes behind its start `memory`: rows of 128 bytes behind each other,
/// their 16-byte parts changed by the place (swizzle_128_bytes). Zeros outside of the tensor.
void copy_box(const TensorMap&, const std::array<std::int32_t, 5>& coordinates, std::uint8_t* memory,
              std::uint32_t place);

/// The same from there into the tensor; what lies outside of it is left out.
void store_box(const TensorMap&, const std::array<std::int32_t, 5>& coordinates, const std::uint8_t* memory,
               std::uint32_t place);

/// Where byte `at` of shared memory stands when it is swizzled.
inline std::uint32_t swizzled(std::uint32_t at) {
  return at ^ (at >> 7 & 7) << 4;
}

}  // namespace emulator
