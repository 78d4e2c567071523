#include "device/hip/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/process_lifetime.h"
#include "device/gpu_driver.h"

namespace regard::hip {
namespace {

/// The newest first; the oldest one is opened to say that it is too old.
constexpr const char* names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so",
                                 "libamdhip64.so.5"};

Result<Driver> open() {
  const Result<void*> library = gpu::open_library(
      names,
      "this machine has no HIP runtime (libamdhip64.so was not found); install ROCm, or use a cpu target");
  if (!library) return tl::unexpected(library.error());
  Driver driver;
#define REGARD_FIND(result, name, symbol, parameters)                               \
  driver.name = reinterpret_cast<result(*) parameters>(dlsym(*library, #symbol));   \
  if (driver.name == nullptr) {                                                     \
    return refused("the HIP runtime of this machine is too old: it has no " #symbol \
                   "; ROCm 6 or later is needed");                                  \
  }
  REGARD_HIP_FUNCTIONS(REGARD_FIND)
#undef REGARD_FIND
  const Code code = driver.init(0);
  if (code == success) return driver;
  driver.take_last_error();
  if (code == no_device) return refused("this machine has a HIP runtime and no AMD GPU; use a cpu target");
  return fail(code == out_of_memory ? ErrorKind::no_memory : ErrorKind::refused,
              fmt::format("the HIP runtime could not be started: {}", driver.error_text(code)));
}

}  // namespace

const Result<Driver>& driver() {
  return process_lifetime_unless_scarce<open>();
}

bool succeeded(Code code) {
  if (code == success) return true;
  driver()->take_last_error();
  return false;
}

Status check(Code code, const char* what) {
  if (succeeded(code)) return {};
  return fail(
      code == out_of_memory ? ErrorKind::no_memory : ErrorKind::refused,
      fmt::format("HIP could not {}: {} ({})", what, driver()->error_text(code), driver()->error_name(code)));
}

}  // namespace regard::hip
