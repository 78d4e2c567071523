#include <fmt/format.h>

#include <charconv>

#include "base/process_lifetime.h"
#include "device/cuda/cuda.h"
#include "device/gpu_driver.h"

namespace regard::cuda {
namespace {

Result<Device> describe(const Driver& driver, int ordinal) {
  Device device;
  device.backend = &backend;
  device.ordinal = ordinal;
  char name[128] = "";
  if (Status status = check(driver.device_name(name, sizeof name, ordinal), "name a device"); !status)
    return tl::unexpected(status.error());
  device.name = name;
  int major = 0, minor = 0, shared_memory = 0;
  const std::pair<DeviceAttribute, int*> attributes[] = {{attribute_major, &major},
                                                         {attribute_minor, &minor},
                                                         {attribute_multiprocessors, &device.multiprocessors},
                                                         {attribute_shared_memory, &shared_memory}};
  for (const auto& [attribute, value] : attributes) {
    if (Status status = check(driver.device_attribute(value, attribute, ordinal), "describe a device");
        !status)
      return tl::unexpected(status.error());
  }
  device.chip = fmt::format("sm_{}{}", major, minor);
  device.shared_memory = shared_memory;
  return device;
}

Result<std::vector<Device>> find_devices() {
  return gpu::find_devices(driver(), check, describe,
                           "this machine has an NVIDIA driver and no GPU; use a cpu target");
}

/// The primary context of a device, kept for the life of the process. A second retain in a race is harmless.
Result<Context> context_of(const Device& device) {
  static std::array<std::atomic<Context>, gpu::most_devices> contexts{};
  std::atomic<Context>& cached = contexts[static_cast<std::size_t>(device.ordinal)];
  if (const Context known = cached.load(std::memory_order_acquire)) return known;
  Context context = nullptr;
  if (Status status = check(driver()->retain_context(&context, device.ordinal), "make a context"); !status)
    return tl::unexpected(status.error());
  cached.store(context, std::memory_order_release);
  return context;
}

}  // namespace

const Result<std::vector<Device>>& devices() {
  return process_lifetime_unless_scarce<find_devices>();
}

Result<const Device*> current_device() {
  const Result<std::vector<Device>>& all = devices();
  if (!all) return tl::unexpected(all.error());
  int ordinal = 0;
  // Checked first, as cuCtxGetDevice without a context is an error, which tools report.
  Context current = nullptr;
  driver()->current_context(&current);
  if (current == nullptr || driver()->current_device(&ordinal) != success) ordinal = all->front().ordinal;
  return gpu::device_with(backend, ordinal, "CUDA");
}

Result<const Device*> device_of(const void* memory, const char* name) {
  const Result<Driver>& opened = driver();
  if (!opened) return tl::unexpected(opened.error());
  const auto address = reinterpret_cast<Address>(memory);
  unsigned type = memory_unknown;
  int ordinal = 0;
  PointerAttribute attributes[] = {attribute_memory_type, attribute_ordinal};
  void* found[] = {&type, &ordinal};
  if (opened->pointer_attributes(2, attributes, found, address) != success || type == memory_unknown ||
      type == memory_of_host) {
    return gpu::lies_on_the_host(name);
  }
  return gpu::device_with(backend, ordinal, "CUDA");
}

namespace {

/// Of a chip or a target, "sm_90a".
struct Capability {
  int major, minor;
  bool exact;  ///< its name ends with a letter
};

Capability capability_of(std::string_view name) {
  constexpr std::string_view prefix = "sm_";
  name.remove_prefix(prefix.size());
  int number = 0;
  const char* const end = std::from_chars(name.data(), name.data() + name.size(), number).ptr;
  return {number / 10, number % 10, end != name.data() + name.size()};
}

}  // namespace

/// Machine code runs on devices of its major compute capability and at least its minor one; that of a target
/// whose name ends with a letter runs on no others.
Status runs_on(const Device& device, std::string_view target) {
  const Capability code = capability_of(target), chip = capability_of(device.chip);
  if (chip.major == code.major && (code.exact ? chip.minor == code.minor : chip.minor >= code.minor))
    return {};
  return gpu::does_not_run_on(device, target);
}

/// Enters the device's primary context, unless it is already current.
Status enter(const Device& device, std::optional<int>& former) {
  const Result<Context> context = context_of(device);
  if (!context) return tl::unexpected(context.error());
  Context current = nullptr;
  driver()->current_context(&current);
  if (current == *context) return {};
  Status status = check(driver()->push_context(*context), "use a device");
  if (status) former = 0;  // the driver's stack knows it
  return status;
}

void leave(int) {
  Context ours = nullptr;
  driver()->pop_context(&ours);
}

}  // namespace regard::cuda
