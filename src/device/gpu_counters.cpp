// Work counters that need no clearing: kernels leave them at 0, and launches in one stream follow one
// another, so each stream has its own.
#include <memory>

#include "base/process_lifetime.h"
#include "device/gpu_backend.h"

namespace regard::gpu {

/// The counters of a device. A stream's first call takes the next free one near its number's slot and clears
/// it. Counters are never released: without the stream's handle, which may no longer be valid, the driver
/// does not say whether a stream is gone, and its work can go on without it. An event after each call would
/// show it, but would cost every call more than clearing costs the streams that find no counter here.
class Counters {
 public:
  Counters(const Backend& backend, void* memory) : backend_(backend), memory_(static_cast<char*>(memory)) {}

  static constexpr std::size_t count = 1024;
  static constexpr std::size_t bytes_apart = 128;  // counters of two streams do not share a cache line

  /// Null for streams beyond the first thousand or so.
  std::uint32_t* of(std::uint64_t stream_number, Stream stream) const {
    const std::uint64_t owner = stream_number + first_owner;
    for (std::size_t probe = 0; probe < probes; ++probe) {
      const std::size_t index = (stream_number + probe) % count;
      std::uint64_t seen = owners_[index].load(std::memory_order_acquire);
      if (seen == nobody && owners_[index].compare_exchange_strong(seen, being_cleared))
        return cleared(index, owner, stream);
      if (seen == owner) return address(index);
      if (seen == being_cleared) return nullptr;  // perhaps for this stream, by another thread
    }
    return nullptr;
  }

 private:
  static constexpr std::uint64_t nobody = 0, being_cleared = 1, first_owner = 2;
  static constexpr std::size_t probes = 16;

  std::uint32_t* address(std::size_t index) const {
    return reinterpret_cast<std::uint32_t*>(memory_ + index * bytes_apart);
  }

  /// Others can use it once the clearing is in the stream, before anything they launch there.
  std::uint32_t* cleared(std::size_t index, std::uint64_t owner, Stream stream) const {
    const bool done = backend_.clear(address(index), sizeof(std::uint32_t), stream).has_value();
    owners_[index].store(done ? owner : nobody, std::memory_order_release);
    return done ? address(index) : nullptr;
  }

  const Backend& backend_;
  char* memory_;
  mutable std::array<std::atomic<std::uint64_t>, count> owners_{};
};

namespace {

/// Null where streams have no numbers.
std::atomic<const Counters*>* counters_of(const Device& device) {
  CountersOfDevices* const all = device.backend->counters;
  return all == nullptr ? nullptr : &(*all)[static_cast<std::size_t>(device.ordinal)];
}

}  // namespace

void reserve_counters(const Device& device) {
  std::atomic<const Counters*>* const cached = counters_of(device);
  if (cached == nullptr || cached->load(std::memory_order_acquire) != nullptr) return;
  const Result<void*> memory = device.backend->allocate(device, Counters::count * Counters::bytes_apart);
  if (!memory) return;
  auto fresh = std::make_unique<const Counters>(*device.backend, *memory);
  const Counters* const own = fresh.get();
  if (&publish(*cached, std::move(fresh)) != own) (void)device.backend->release(*memory);
}

std::uint32_t* counter_at_zero(const Device& device, Stream stream) {
  std::atomic<const Counters*>* const cached = counters_of(device);
  if (cached == nullptr) return nullptr;
  const Counters* const counters = cached->load(std::memory_order_acquire);
  std::uint64_t number = 0;
  if (counters == nullptr || !device.backend->number_of(stream, number)) return nullptr;
  return counters->of(number, stream);
}

Status clear(const Device& device, void* memory, std::int64_t bytes, Stream stream) {
  return device.backend->clear(memory, bytes, stream);
}

}  // namespace regard::gpu
