// Counters of work that need no clearing: kernels leave them at 0, and launches in one stream follow one
// another, so that each stream has one of its own.
#include <array>
#include <atomic>
#include <memory>

#include "base/forever.h"
#include "device/cuda.h"

namespace regard::cuda {
namespace {

/// The counters of a device. A stream's first call takes the next free one near its number's place and clears
/// it. Nothing is ever taken back: whether a stream is gone the driver does not say without its handle, which
/// then may not be used any more, and its work may go on without it. An event after each call would tell, and
/// cost every call more than clearing costs those that find no counter here.
class Counters {
 public:
  explicit Counters(Address memory) : memory_(memory) {}

  static constexpr std::size_t count = 1024;
  static constexpr std::size_t bytes_apart = 128;  // blocks of two streams do not meet in a line of the cache

  Address of(std::uint64_t stream_number, Stream stream) const {
    const std::uint64_t owner = stream_number + first_owner;
    for (std::size_t probe = 0; probe < probes; ++probe) {
      const std::size_t place = (stream_number + probe) % count;
      std::uint64_t seen = owners_[place].load(std::memory_order_acquire);
      if (seen == nobody && owners_[place].compare_exchange_strong(seen, being_cleared))
        return cleared(place, owner, stream);
      if (seen == owner) return address(place);
      if (seen == being_cleared) return 0;  // perhaps for this stream, by another thread
    }
    return 0;
  }

 private:
  static constexpr std::uint64_t nobody = 0, being_cleared = 1, first_owner = 2;
  static constexpr std::size_t probes = 16;

  Address address(std::size_t place) const { return memory_ + place * bytes_apart; }

  /// Others may use it once the clearing is in the stream, before whatever they launch there.
  Address cleared(std::size_t place, std::uint64_t owner, Stream stream) const {
    const bool done = driver()->fill_ordered(address(place), 0, 1, stream) == success;
    owners_[place].store(done ? owner : nobody, std::memory_order_release);
    return done ? address(place) : 0;
  }

  Address memory_;
  mutable std::array<std::atomic<std::uint64_t>, count> owners_{};
};

std::array<std::atomic<const Counters*>, most_devices> counters_of_devices{};

}  // namespace

void reserve_counters(const Device& device) {
  std::atomic<const Counters*>& place = counters_of_devices[static_cast<std::size_t>(device.ordinal)];
  if (place.load(std::memory_order_acquire) != nullptr) return;
  Address memory = 0;
  if (driver()->allocate(&memory, Counters::count * Counters::bytes_apart) != success) return;
  auto fresh = std::make_unique<const Counters>(memory);
  const Counters* const own = fresh.get();
  if (&publish(place, std::move(fresh)) != own) driver()->release(memory);
}

Address counter_at_zero(const Device& device, Stream stream) {
  const Counters* const counters =
      counters_of_devices[static_cast<std::size_t>(device.ordinal)].load(std::memory_order_acquire);
  if (counters == nullptr) return 0;
  int capturing = 0;
  if (driver()->is_capturing(stream, &capturing) != success || capturing != 0) return 0;
  unsigned long long number = 0;
  if (driver()->stream_number(stream, &number) != success) return 0;
  return counters->of(number, stream);
}

}  // namespace regard::cuda
