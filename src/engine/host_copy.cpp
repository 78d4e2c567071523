#include "engine/host_copy.h"

#include <algorithm>

#include "device/gpu.h"
#include "problem/tensors.h"

namespace regard {

Result<HostCopy> host_copy(const regard_arguments& given) {
  HostCopy copy{given, {}};
  for (regard_tensor& tensor : copy.arguments.tensor) {
    if (tensor.data == nullptr) continue;
    const gpu::Device* const device = gpu::device_holding(tensor.data);
    if (device == nullptr) continue;
    const ByteRange range = range_of(tensor);
    const std::int64_t bytes =
        range.end > range.first ? static_cast<std::int64_t>(range.end - range.first) : 0;
    // Even zero bytes need an address: null would mean a missing tensor.
    std::vector<std::byte>& memory =
        copy.memory.emplace_back(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
    if (Status status = gpu::copy(*device, memory.data(), tensor.data, bytes); !status)
      return tl::unexpected(status.error());
    tensor.data = memory.data();
  }
  return copy;
}

}  // namespace regard
