#include <fmt/format.h>

#include <algorithm>

#include "base/forever.h"
#include "device/cuda.h"

namespace regard::cuda {
namespace {

Result<Device> describe(const Driver& driver, int ordinal) {
  Device device;
  device.ordinal = ordinal;
  char name[128] = "";
  if (Status status = check(driver.device_name(name, sizeof name, ordinal), "name a device"); !status)
    return tl::unexpected(status.error());
  device.name = name;
  int shared_memory = 0;
  const std::pair<DeviceAttribute, int*> wanted[] = {{attribute_major, &device.major},
                                                     {attribute_minor, &device.minor},
                                                     {attribute_multiprocessors, &device.multiprocessors},
                                                     {attribute_shared_memory, &shared_memory}};
  for (const auto& [attribute, value] : wanted) {
    if (Status status = check(driver.device_attribute(value, attribute, ordinal), "describe a device");
        !status)
      return tl::unexpected(status.error());
  }
  device.shared_memory = shared_memory;
  return device;
}

Result<std::vector<Device>> find_devices() {
  const Result<Driver>& opened = driver();
  if (!opened) return tl::unexpected(opened.error());
  int count = 0;
  if (Status status = check(opened->device_count(&count), "count devices"); !status)
    return tl::unexpected(status.error());
  std::vector<Device> found;
  for (int ordinal = 0; ordinal < std::min(count, most_devices); ++ordinal) {
    Result<Device> device = describe(*opened, ordinal);
    if (!device) return tl::unexpected(device.error());
    found.push_back(std::move(*device));
  }
  if (found.empty()) return refused("this machine has an NVIDIA driver and no GPU; use a cpu target");
  return found;
}

Result<const Device*> device_with(int ordinal) {
  const Result<std::vector<Device>>& all = devices();
  if (!all) return tl::unexpected(all.error());
  for (const Device& device : *all) {
    if (device.ordinal == ordinal) return &device;
  }
  return refused(fmt::format("CUDA device {} is not among the {} that were found", ordinal, all->size()));
}

/// The primary context of a device, kept for the life of the process. A second retain of a race is harmless.
Result<Context> context_of(const Device& device) {
  static std::array<std::atomic<Context>, most_devices> contexts{};
  std::atomic<Context>& place = contexts[static_cast<std::size_t>(device.ordinal)];
  if (const Context known = place.load(std::memory_order_acquire)) return known;
  Context context = nullptr;
  if (Status status = check(driver()->retain_context(&context, device.ordinal), "make a context"); !status)
    return tl::unexpected(status.error());
  place.store(context, std::memory_order_release);
  return context;
}

/// Where a thread found memory, and how much had been released until then.
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

/// The thread's last ones of addresses like this, the latest first.
std::array<Sighting, 4>& sightings_like(const void* memory) {
  static thread_local std::array<std::array<Sighting, 4>, 16> sightings{};
  const auto block = reinterpret_cast<std::uintptr_t>(memory) >> 8;  // no tensor of an allocator is smaller
  return sightings[(block * 0x9E3779B97F4A7C15ull >> 32) % sightings.size()];
}

void remember(const Sighting& found) {
  std::array<Sighting, 4>& like = sightings_like(found.memory);
  std::copy_backward(like.begin(), like.end() - 1, like.end());
  like.front() = found;
}

}  // namespace

const Result<std::vector<Device>>& devices() {
  return forever_unless_scarce<find_devices>();
}

Result<const Device*> current_device() {
  const Result<std::vector<Device>>& all = devices();
  if (!all) return tl::unexpected(all.error());
  int ordinal = 0;
  // Asked first, as cuCtxGetDevice without a context is an error, which tools report.
  Context current = nullptr;
  driver()->current_context(&current);
  if (current == nullptr || driver()->current_device(&ordinal) != success) ordinal = all->front().ordinal;
  return device_with(ordinal);
}

Result<const Device*> device_of(const void* memory, const char* name) {
  const Result<Driver>& opened = driver();
  if (!opened) return tl::unexpected(opened.error());
  const auto address = reinterpret_cast<Address>(memory);
  unsigned type = memory_unknown;
  int ordinal = 0;
  PointerAttribute wanted[] = {attribute_memory_type, attribute_ordinal};
  void* found[] = {&type, &ordinal};
  if (opened->pointer_attributes(2, wanted, found, address) != success || type == memory_unknown ||
      type == memory_of_host) {
    return invalid(
        fmt::format("{} lies in the memory of the host, and a GPU target needs it on the GPU; copy it there, "
                    "or use a cpu target",
                    name));
  }
  Result<const Device*> device = device_with(ordinal);
  if (device && !seen_on(**device, memory)) remember(sighting(memory, **device));
  return device;
}

bool seen_on(const Device& device, const void* memory) {
  const std::array<Sighting, 4>& like = sightings_like(memory);
  return std::find(like.begin(), like.end(), sighting(memory, device)) != like.end();
}

void forget_sightings() {
  releases.fetch_add(1, std::memory_order_relaxed);
}

Use::Use(const Device& device) {
  const Result<Context> context = context_of(device);
  if (!context) {
    status_ = tl::unexpected(context.error());
    return;
  }
  Context current = nullptr;
  driver()->current_context(&current);
  if (current == *context) return;
  status_ = check(driver()->push_context(*context), "use a device");
  pushed_ = status_.has_value();
}

Use::~Use() {
  Context ours = nullptr;
  if (pushed_) driver()->pop_context(&ours);
}

}  // namespace regard::cuda
