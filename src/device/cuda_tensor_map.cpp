#include <fmt/format.h>

#include "device/cuda.h"

namespace regard::cuda {

Status encode(const BoxedTensor& tensor, const char* name, TensorMap& map) {
  constexpr std::uint32_t steps[5] = {1, 1, 1, 1, 1};
  constexpr int no_interleave = 0, zeros_outside = 0;
  if (Status status =
          check(driver()->encode_map(&map, tensor.type, tensor.rank, tensor.data, tensor.sizes.data(),
                                     tensor.strides.data(), tensor.box.data(), steps, no_interleave,
                                     swizzle_128_bytes, promote_128_bytes, zeros_outside),
                "describe a tensor to the tensor memory unit");
      !status) {
    return fail(status.error().kind, fmt::format("{}: {}", name, status.error().message));
  }
  return {};
}

}  // namespace regard::cuda
