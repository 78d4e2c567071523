#include <fmt/format.h>

#include "base/amd_code.h"
#include "base/process_lifetime.h"
#include "device/gpu_driver.h"
#include "device/hip/hip.h"

namespace regard::hip {
namespace {

Result<Device> describe(const Driver& runtime, int ordinal) {
  DeviceProperties properties{};
  if (Status status = check(runtime.device_properties(&properties, ordinal), "describe a device"); !status)
    return tl::unexpected(status.error());
  // What follows the first colon is how the chip is set up; code without such words runs with any setting.
  const std::string_view chip = properties.chip;
  if (!chip.starts_with("gfx"))
    return refused(fmt::format("HIP does not name the chip of device {}", ordinal));
  Device device;
  device.backend = &backend;
  device.ordinal = ordinal;
  device.name = properties.name;
  device.chip = chip.substr(0, chip.find(':'));
  device.multiprocessors = properties.multiprocessors;
  device.shared_memory = static_cast<std::int64_t>(properties.shared_memory);
  return device;
}

Result<std::vector<Device>> find_devices() {
  return gpu::find_devices(driver(), check, describe,
                           "this machine has a HIP runtime and no AMD GPU; use a cpu target");
}

}  // namespace

const Result<std::vector<Device>>& devices() {
  return process_lifetime_unless_scarce<find_devices>();
}

Result<const Device*> current_device() {
  const Result<Driver>& opened = driver();
  if (!opened) return tl::unexpected(opened.error());
  int ordinal = 0;
  if (Status status = check(opened->current_device(&ordinal), "find the current device"); !status)
    return tl::unexpected(status.error());
  return gpu::device_with(backend, ordinal, "HIP");
}

Result<const Device*> device_of(const void* memory, const char* name) {
  const Result<Driver>& opened = driver();
  if (!opened) return tl::unexpected(opened.error());
  PointerAttributes found{};
  if (!succeeded(opened->pointer_attributes(&found, memory)) || found.type == memory_unregistered ||
      found.type == memory_of_host) {
    return gpu::lies_on_the_host(name);
  }
  return gpu::device_with(backend, found.ordinal, "HIP");
}

Status runs_on(const Device& device, std::string_view target) {
  if (amd::runs_on_chip(target, device.chip)) return {};
  return gpu::does_not_run_on(device, target);
}

Status enter(const Device& device, std::optional<int>& former) {
  int current = 0;
  if (Status status = check(driver()->current_device(&current), "find the current device"); !status)
    return status;
  if (current == device.ordinal) return {};
  Status status = check(driver()->set_device(device.ordinal), "use a device");
  if (status) former = current;
  return status;
}

void leave(int former) {
  succeeded(driver()->set_device(former));
}

}  // namespace regard::hip
