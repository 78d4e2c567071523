#include "engine/tensor_maps.h"

#include <algorithm>
#include <array>
#include <memory>

#include "base/thread.h"

namespace regard {
namespace {

gpu::BoxedTensor::Type map_type(DType dtype) {
  using enum gpu::BoxedTensor::Type;
  if (bytes_of(dtype) == 1) return uint8;
  return dtype == DType::fp16 ? fp16 : bf16;
}

Status encode(const gpu::Device& device, const TensorBox& box, gpu::TensorMap& map) {
  const TensorMapShape shape = box.shape(box);
  gpu::BoxedTensor boxed{box.rows.data, map_type(box.dtype), shape.rank,
                         shape.sizes,   shape.strides,       shape.box};
  for (std::uint64_t& size : boxed.sizes) size = std::max<std::uint64_t>(size, 1);
  return gpu::encode(device, boxed, box.name, map);
}

/// A thread's last maps, enough for the layers of a model in turn. A map is in one of a few slots from its
/// hash on; the least recently used of them is replaced, which is never one of the same call.
class Recent {
 public:
  Status find(const gpu::Device& device, const TensorBox& box, const gpu::TensorMap*& found) {
    const std::size_t start = hash(box);
    Entry* oldest = &entries_[start % capacity];
    for (std::size_t probe = 0; probe < probes; ++probe) {
      Entry& entry = entries_[(start + probe) % capacity];
      if (entry.box == box) {
        entry.last_use = ++uses_;
        found = &entry.map;
        return {};
      }
      if (entry.last_use < oldest->last_use) oldest = &entry;
    }
    oldest->box = {};
    if (Status status = encode(device, box, oldest->map); !status) return status;
    oldest->box = box;
    oldest->last_use = ++uses_;
    found = &oldest->map;
    return {};
  }

 private:
  static constexpr std::size_t capacity = 512, probes = 8;
  static_assert(probes > std::tuple_size_v<TensorMaps>);  // the maps of one call

  struct Entry {
    TensorBox box;  ///< without rows: none yet
    std::uint64_t last_use;
    gpu::TensorMap map;
  };

  static std::size_t hash(const TensorBox& box) {
    std::uint64_t value = reinterpret_cast<std::uintptr_t>(box.rows.data) / 16;
    for (const std::int64_t more : {std::int64_t{box.rows.row}, box.count, box.box_rows})
      value = (value ^ static_cast<std::uint64_t>(more)) * 0x9E3779B97F4A7C15ull;
    return value >> 32;
  }

  std::array<Entry, capacity> entries_{};
  std::uint64_t uses_ = 0;
};

/// 128 KiB, only for threads that get here.
const ThreadSlot<Recent> recent_of_thread;

}  // namespace

Status tensor_maps(const gpu::Device& device, const TensorBoxes& boxes, TensorMaps& maps) {
  if (recent_of_thread.get() == nullptr && !recent_of_thread.set(std::make_unique<Recent>()))
    return fail(ErrorKind::no_memory, "out of memory");
  for (std::size_t i = 0; i < boxes.count; ++i)
    if (Status status = recent_of_thread.get()->find(device, boxes.box[i], maps[i]); !status) return status;
  return {};
}

}  // namespace regard
