#include "emulator/tensor_map.h"

#include <cstring>

namespace emulator {

std::uint32_t TensorMap::bytes_of_box() const {
  std::uint32_t bytes = element_bytes;
  for (std::uint32_t i = 0; i < rank; ++i) bytes *= box[i];
  return bytes;
}

void copy_box(const TensorMap& map, const std::array<std::int32_t, 5>& coordinates, std::uint8_t* memory,
              std::uint32_t place) {
  const std::uint32_t elements = map.bytes_of_box() / map.element_bytes;
  for (std::uint32_t n = 0; n < elements; ++n) {
    std::uint64_t address = map.address;
    bool inside = true;
    std::uint32_t rest = n;
    for (std::uint32_t i = 0; i < map.rank; ++i) {
      const std::int64_t at = std::int64_t{coordinates[i]} + rest % map.box[i];
      rest /= map.box[i];
      inside &= at >= 0 && static_cast<std::uint64_t>(at) < map.extent[i];
      address += static_cast<std::uint64_t>(at) * (i == 0 ? map.element_bytes : map.stride[i - 1]);
    }
    std::uint8_t* const to = memory + swizzled(place + n * map.element_bytes);
    if (inside)
      std::memcpy(to, reinterpret_cast<const void*>(address), map.element_bytes);
    else
      std::memset(to, 0, map.element_bytes);
  }
}

}  // namespace emulator
