#include "emulator/tensor_map.h"

#include <cstring>

namespace emulator {

std::uint32_t TensorMap::bytes_of_box() const {
  std::uint32_t bytes = element_bytes;
  for (std::uint32_t i = 0; i < rank; ++i) bytes *= box[i];
  return bytes;
}

namespace {

/// function(offset in swizzled shared memory, address in the tensor, or nullptr outside) for each element.
template <class Function>
void each_element(const TensorMap& map, const std::array<std::int32_t, 5>& coordinates, std::uint32_t place,
                  Function function) {
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
    function(swizzled(place + n * map.element_bytes), inside ? reinterpret_cast<void*>(address) : nullptr);
  }
}

}  // namespace

void copy_box(const TensorMap& map, const std::array<std::int32_t, 5>& coordinates, std::uint8_t* memory,
              std::uint32_t place) {
  each_element(map, coordinates, place, [&](std::uint32_t to, const void* from) {
    if (from != nullptr)
      std::memcpy(memory + to, from, map.element_bytes);
    else
      std::memset(memory + to, 0, map.element_bytes);
  });
}

void store_box(const TensorMap& map, const std::array<std::int32_t, 5>& coordinates,
               const std::uint8_t* memory, std::uint32_t place) {
  each_element(map, coordinates, place, [&](std::uint32_t from, void* to) {
    if (to != nullptr) std::memcpy(to, memory + from, map.element_bytes);
  });
}

}  // namespace emulator
