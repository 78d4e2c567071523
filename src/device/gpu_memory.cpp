// Device memory and copies, and locating memory.
#include <algorithm>

#include "device/gpu_backend.h"

namespace regard::gpu {
namespace {

/// Where a thread found memory, and how much had been released by then.
struct Sighting {
  const void* memory = nullptr;
  const Device* device = nullptr;
  std::uint64_t releases = 0;
  bool operator==(const Sighting&) const = default;
};
std::atomic<std::uint64_t> releases{0};

Sighting sighting(const void* memory, const Device& device) {
  return {memory, &device, releases.load(std::memory_order_relaxed)};
}

/// The thread's latest sightings of addresses similar to this one, the most recent first.
std::array<Sighting, 4>& sightings_like(const void* memory) {
  static thread_local std::array<std::array<Sighting, 4>, 16> sightings{};
  const auto block = reinterpret_cast<std::uintptr_t>(memory) >> 8;  // no allocator's tensors are smaller
  return sightings[(block * 0x9E3779B97F4A7C15ull >> 32) % sightings.size()];
}

void remember(const Sighting& found) {
  std::array<Sighting, 4>& like = sightings_like(found.memory);
  std::copy_backward(like.begin(), like.end() - 1, like.end());
  like.front() = found;
}

/// For all threads, as memory is released.
void forget_sightings() {
  releases.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Result<const Device*> device_of(const Backend& backend, const void* memory, const char* name) {
  Result<const Device*> device = backend.device_of(memory, name);
  if (device && !seen_on(**device, memory)) remember(sighting(memory, **device));
  return device;
}

bool seen_on(const Device& device, const void* memory) {
  const std::array<Sighting, 4>& like = sightings_like(memory);
  return std::find(like.begin(), like.end(), sighting(memory, device)) != like.end();
}

Result<void*> allocate(const Device& device, std::int64_t bytes) {
  const Use use(device);
  if (!use.status()) return tl::unexpected(use.status().error());
  return device.backend->allocate(device, bytes);
}

Status release(const Device& device, void* memory) {
  const Use use(device);
  if (!use.status()) return use.status();
  forget_sightings();
  return device.backend->release(memory);
}

Status copy(const Device& device, void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return {};
  const Use use(device);
  return use.status() ? device.backend->copy(to, from, bytes) : use.status();
}

OrderedMemory::OrderedMemory(const Device& device, std::int64_t bytes, Stream stream)
    : device_(device), stream_(stream) {
  if (bytes == 0) return;
  const Use use(device);
  status_ = use.status();
  if (!status_) return;
  const Result<void*> memory = device.backend->allocate_ordered(bytes, stream);
  if (memory)
    data_ = *memory;
  else
    status_ = tl::unexpected(memory.error());
}

OrderedMemory::~OrderedMemory() {
  if (data_ == nullptr) return;
  const Use use(device_);
  if (use.status()) device_.backend->release_ordered(data_, stream_);
}

}  // namespace regard::gpu
