#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/process_lifetime.h"
#include "base/result.h"
#include "device/gpu_driver.h"

namespace regard::cuda {
namespace {

Result<Driver> open() {
  static constexpr const char* names[] = {"libcuda.so.1"};
  const Result<void*> library = gpu::open_library(
      names,
      "this machine has no NVIDIA driver (libcuda.so.1 was not found); install it, or use a cpu target");
  if (!library) return tl::unexpected(library.error());
  Driver driver;
#define REGARD_FIND(name, symbol, parameters)                                         \
  driver.name = reinterpret_cast<Code(*) parameters>(dlsym(*library, #symbol));       \
  if (driver.name == nullptr) {                                                       \
    return refused("the NVIDIA driver of this machine is too old: it has no " #symbol \
                   "; CUDA 12 or later is needed");                                   \
  }
  REGARD_CUDA_FUNCTIONS(REGARD_FIND)
#undef REGARD_FIND
  const Code code = driver.init(0);
  if (code == no_device) return refused("this machine has an NVIDIA driver and no GPU; use a cpu target");
  if (code != success) {
    const char* text = nullptr;
    driver.error_text(code, &text);
    return fail(code == out_of_memory ? ErrorKind::no_memory : ErrorKind::refused,
                fmt::format("the NVIDIA driver could not be started: {}", text ? text : "unknown error"));
  }
  return driver;
}

}  // namespace

const Result<Driver>& driver() {
  return process_lifetime_unless_scarce<open>();
}

Status check(Code code, const char* what) {
  if (code == success) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  driver()->error_name(code, &name);
  driver()->error_text(code, &text);
  const ErrorKind kind = code == out_of_memory ? ErrorKind::no_memory : ErrorKind::refused;
  return fail(kind,
              fmt::format("CUDA could not {}: {} ({}){}", what, text ? text : "unknown error",
                          name ? name : "no name",
                          code == not_initialized ? "; a forked child cannot use its parent's CUDA, start it "
                                                    "with 'spawn' instead"
                                                  : ""));
}

}  // namespace regard::cuda
