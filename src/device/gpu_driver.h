// Opens a vendor's driver and finds its devices; only the driver's functions differ between vendors.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "device/gpu_backend.h"

namespace regard::gpu {

/// The library that the process already has under one of the names, else the first that is found. `missing`
/// is the error where there is none.
Result<void*> open_library(std::span<const char* const> names, const char* missing);

/// All devices that the driver counts. `check` and `describe` are the vendor's; `none` is the error where it
/// counts none.
template <class Driver, class Check, class Describe>
Result<std::vector<Device>> find_devices(const Result<Driver>& driver, Check check, Describe describe,
                                         const char* none) {
  if (!driver) return tl::unexpected(driver.error());
  int count = 0;
  if (Status status = check(driver->device_count(&count), "count devices"); !status)
    return tl::unexpected(status.error());
  std::vector<Device> found;
  for (int ordinal = 0; ordinal < std::min(count, most_devices); ++ordinal) {
    Result<Device> device = describe(*driver, ordinal);
    if (!device) return tl::unexpected(device.error());
    found.push_back(std::move(*device));
  }
  if (found.empty()) return refused(none);
  return found;
}

/// `vendor` begins the error's message: "CUDA".
Result<const Device*> device_with(const Backend&, int ordinal, const char* vendor);

// Errors.
tl::unexpected<Error> lies_on_the_host(const char* name);
tl::unexpected<Error> does_not_run_on(const Device&, std::string_view target);

}  // namespace regard::gpu
