// What a make of GPUs does behind device/gpu.h: its driver's functions under one form. A device that is
// handed over is one of the backend's own. What is the same for every make stands in the gpu_*.cpp once.
#pragma once

#include "device/gpu.h"

namespace regard::gpu {

/// Of a device: counters of its streams (gpu_counters.cpp).
class Counters;
using CountersOfDevices = std::array<std::atomic<const Counters*>, most_devices>;

struct Backend {
  std::string_view kind;  ///< of its targets

  const Result<std::vector<Device>>& (*devices)();
  Result<const Device*> (*current_device)();
  Status (*runs_on)(const Device&, std::string_view target);
  /// Says whether `leave` must follow: not where the device was current before.
  Status (*enter)(const Device&, bool& must_leave);
  void (*leave)();

  Status (*check_binary)(std::span<const std::byte> binary, const std::string& symbol);
  /// Never unloaded. The device is in use.
  Result<Function> (*load)(const Device&, std::span<const std::byte> binary, const std::string& symbol);
  Status (*launch)(Function, const Launch&, Stream, std::span<void* const> parameters);
  Status (*wait)(Stream);
  /// Also where the driver does not say.
  bool (*is_capturing)(Stream);
  /// One that no other stream of the process ever has; false while it is capturing, too.
  bool (*number_of)(Stream, std::uint64_t& number);

  Result<const Device*> (*device_of)(const void* memory, const char* name);
  /// The device is in use. No bytes are some, so that each has an address of its own.
  Result<void*> (*allocate)(const Device&, std::int64_t bytes);
  Status (*release)(void* memory);
  Result<void*> (*allocate_ordered)(std::int64_t bytes, Stream);
  void (*release_ordered)(void* memory, Stream);
  Status (*copy)(void* to, const void* from, std::int64_t bytes);
  /// In the stream's order.
  Status (*clear)(void* memory, std::int64_t bytes, Stream);

  /// Where chips have a tensor memory unit.
  Status (*encode)(const BoxedTensor&, const char* name, TensorMap&);

  CountersOfDevices* counters;
};

/// Memory for the counters of a device's streams; without any left, there are none. Not while a stream is
/// captured; the device must be in use.
void reserve_counters(const Device&);

}  // namespace regard::gpu
