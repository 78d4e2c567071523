#include "device/gpu_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/process_lifetime.h"

namespace regard::gpu {

/// One copy of a driver does not know memory of another, so the one that the process has loaded comes first.
Result<void*> open_library(std::span<const char* const> names, const char* missing) {
  const char* why = nullptr;
  for (const int only_loaded : {RTLD_NOLOAD, 0}) {
    for (const char* name : names) {
      if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL | only_loaded)) return library;
      why = dlerror();
    }
  }
  if (why != nullptr && says_scarce(why)) return fail(ErrorKind::no_memory, why);
  return refused(missing);
}

Result<const Device*> device_with(const Backend& backend, int ordinal, const char* vendor) {
  const Result<std::vector<Device>>& all = devices(backend);
  if (!all) return tl::unexpected(all.error());
  for (const Device& device : *all) {
    if (device.ordinal == ordinal) return &device;
  }
  return refused(
      fmt::format("{} device {} is not among the {} that were found", vendor, ordinal, all->size()));
}

tl::unexpected<Error> lies_on_the_host(const char* name) {
  return invalid(
      fmt::format("{} lies in the memory of the host, and a GPU target needs it on the GPU; copy it there, "
                  "or use a cpu target",
                  name));
}

tl::unexpected<Error> does_not_run_on(const Device& device, std::string_view target) {
  return refused(fmt::format("target {} does not run on {}, which is {}", target, device.name, device.chip));
}

}  // namespace regard::gpu
