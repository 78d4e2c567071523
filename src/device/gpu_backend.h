// What a GPU vendor's backend implements for device/gpu.h: its driver's functions in a common form. Devices
// passed to it are the backend's own. What is the same for every vendor is implemented once, in gpu_*.cpp.
#pragma once

#include "device/gpu.h"

namespace regard::gpu {

/// A device's counters for its streams (gpu_counters.cpp).
class Counters;
using CountersOfDevices = std::array<std::atomic<const Counters*>, most_devices>;

struct Backend {
  std::string_view kind;  ///< of its targets

  const Result<std::vector<Device>>& (*devices)();
  Result<const Device*> (*current_device)();
  Status (*runs_on)(const Device&, std::string_view target);
  /// Sets `former` if `leave` must follow with it: not where the device was current before.
  Status (*enter)(const Device&, std::optional<int>& former);
  void (*leave)(int former);

  Status (*check_binary)(std::span<const std::byte> binary, const std::string& symbol);
  /// Never unloaded. The device must be in use.
  Result<Function> (*load)(const Device&, std::span<const std::byte> binary, const std::string& symbol);
  Status (*launch)(Function, const Launch&, Stream, std::span<void* const> parameters);
  Status (*wait)(Stream);
  /// True as well where the driver does not say.
  bool (*is_capturing)(Stream);
  /// A number that no other stream of the process ever has; also false while the stream is capturing. Null
  /// where the driver has no such numbers.
  bool (*number_of)(Stream, std::uint64_t& number);

  Result<const Device*> (*device_of)(const void* memory, const char* name);
  /// The device must be in use. Zero bytes count as some, so that each allocation has its own address.
  Result<void*> (*allocate)(const Device&, std::int64_t bytes);
  Status (*release)(void* memory);
  Result<void*> (*allocate_ordered)(std::int64_t bytes, Stream);
  void (*release_ordered)(void* memory, Stream);
  Status (*copy)(void* to, const void* from, std::int64_t bytes);
  /// In stream order.
  Status (*clear)(void* memory, std::int64_t bytes, Stream);

  /// On chips with a tensor memory accelerator; null where the vendor has none.
  Status (*encode)(const BoxedTensor&, const char* name, TensorMap&);

  /// Null where streams have no numbers.
  CountersOfDevices* counters;
};

/// Allocates the counters of a device's streams; without memory for them, there are none. Not while a stream
/// is captured; the device must be in use.
void reserve_counters(const Device&);

}  // namespace regard::gpu
