#include "engine/host_copy.h"

#include <algorithm>

#include "device/gpu.h"
#include "problem/tensors.h"

namespace regard {
namespace {

/// Bytes from the first element to behind the last.
std::int64_t extent(const regard_tensor& tensor) {
  std::int64_t last = 0;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] == 0) return 0;
    last += (tensor.shape[i] - 1) * tensor.strides[i];
  }
  return (last + 1) * static_cast<std::int64_t>(bytes_of(tensor.dtype));
}

}  // namespace

Result<HostCopy> host_copy(const regard_arguments& given) {
  HostCopy copy{given, {}};
  for (regard_tensor& tensor : copy.arguments.tensor) {
    if (tensor.data == nullptr) continue;
    const gpu::Device* const device = gpu::device_holding(tensor.data);
    if (device == nullptr) continue;
    const std::int64_t bytes = extent(tensor);
    // No bytes are still a place: null would be a tensor that is missing.
    std::vector<std::byte>& memory =
        copy.memory.emplace_back(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
    if (Status status = gpu::copy(*device, memory.data(), tensor.data, bytes); !status)
      return tl::unexpected(status.error());
    tensor.data = memory.data();
  }
  return copy;
}

}  // namespace regard
