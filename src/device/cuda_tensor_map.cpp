// Tensor maps. The driver takes longer over the three of a call than the library over the rest of it.
#include <fmt/format.h>

#include "device/cuda.h"

namespace regard::cuda {
namespace {

Result<TensorMap> encode(const BoxedTensor& tensor, const char* name) {
  constexpr std::uint32_t steps[5] = {1, 1, 1, 1, 1};
  TensorMap map;
  constexpr int no_interleave = 0, zeros_outside = 0;
  if (Status status =
          check(driver()->encode_map(&map, tensor.type, tensor.rank, tensor.data, tensor.sizes.data(),
                                     tensor.strides.data(), tensor.box.data(), steps, no_interleave,
                                     swizzle_128_bytes, promote_256_bytes, zeros_outside),
                "describe a tensor to the tensor memory unit");
      !status) {
    return fail(status.error().kind, fmt::format("{}: {}", name, status.error().message));
  }
  return map;
}

/// A thread's last maps. What a map says follows from its tensor alone, so nothing here ever grows stale.
class Recent {
 public:
  const TensorMap* find(const BoxedTensor& tensor) const {
    for (const Entry& entry : entries_) {
      if (entry.tensor == tensor) return &entry.map;
    }
    return nullptr;
  }
  void keep(const BoxedTensor& tensor, const TensorMap& map) {
    entries_[oldest_] = {tensor, map};
    oldest_ = (oldest_ + 1) % entries_.size();
  }

 private:
  struct Entry {
    BoxedTensor tensor;  ///< of rank 0: none yet
    TensorMap map;
  };
  std::array<Entry, 12> entries_{};  // a few calls of three
  std::size_t oldest_ = 0;
};

}  // namespace

Result<TensorMap> tensor_map(const BoxedTensor& tensor, const char* name) {
  static thread_local Recent recent;
  if (const TensorMap* known = recent.find(tensor)) return *known;
  Result<TensorMap> map = encode(tensor, name);
  if (map) recent.keep(tensor, *map);
  return map;
}

}  // namespace regard::cuda
