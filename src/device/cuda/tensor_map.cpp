#include <fmt/format.h>

#include "device/cuda/cuda.h"

namespace regard::cuda {
namespace {

TensorMapType type_of(gpu::BoxedTensor::Type type) {
  switch (type) {
    case gpu::BoxedTensor::Type::uint8:
      return map_uint8;
    case gpu::BoxedTensor::Type::fp16:
      return map_fp16;
    case gpu::BoxedTensor::Type::bf16:
      break;
  }
  return map_bf16;
}

}  // namespace

Status encode(const gpu::BoxedTensor& tensor, const char* name, gpu::TensorMap& map) {
  constexpr std::uint32_t steps[5] = {1, 1, 1, 1, 1};
  constexpr int no_interleave = 0, zeros_outside = 0;
  const Code code = driver()->encode_map(&map, type_of(tensor.type), tensor.rank, tensor.data,
                                         tensor.sizes.data(), tensor.strides.data(), tensor.box.data(), steps,
                                         no_interleave, swizzle_128_bytes, promote_128_bytes, zeros_outside);
  if (Status status = check(code, "describe a tensor to the tensor memory unit"); !status)
    return fail(status.error().kind, fmt::format("{}: {}", name, status.error().message));
  return {};
}

}  // namespace regard::cuda
