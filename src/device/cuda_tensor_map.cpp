#include <fmt/format.h>

#include "device/cuda.h"

namespace regard::gpu {
namespace {

cuda::TensorMapType number_of(BoxedTensor::Type type) {
  switch (type) {
    case BoxedTensor::Type::uint8:
      return cuda::map_uint8;
    case BoxedTensor::Type::fp16:
      return cuda::map_fp16;
    case BoxedTensor::Type::bf16:
      break;
  }
  return cuda::map_bf16;
}

}  // namespace

Status encode(const BoxedTensor& tensor, const char* name, TensorMap& map) {
  constexpr std::uint32_t steps[5] = {1, 1, 1, 1, 1};
  constexpr int no_interleave = 0, zeros_outside = 0;
  const cuda::Code code =
      cuda::driver()->encode_map(&map, number_of(tensor.type), tensor.rank, tensor.data, tensor.sizes.data(),
                                 tensor.strides.data(), tensor.box.data(), steps, no_interleave,
                                 cuda::swizzle_128_bytes, cuda::promote_128_bytes, zeros_outside);
  if (Status status = cuda::check(code, "describe a tensor to the tensor memory unit"); !status)
    return fail(status.error().kind, fmt::format("{}: {}", name, status.error().message));
  return {};
}

}  // namespace regard::gpu
