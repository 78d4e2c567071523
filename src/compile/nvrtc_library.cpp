#include "compile/nvrtc_library.h"

#include <fmt/format.h>

#include <string_view>

namespace regard {
namespace {

constexpr std::string_view sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

}  // namespace

constinit const RtcMake nvrtc_make = {.name = "NVRTC",
                                      .prefix = "nvrtc",
                                      .code = "CUBIN",
                                      .sonames = sonames,
                                      .before = "libnvrtc-builtins.so"};

std::vector<RtcLocation> nvrtc_locations(const std::string& setting, std::span<const std::string> packages,
                                         const std::string& cuda_home) {
  if (!setting.empty()) return {{"REGARD_NVRTC", setting}};
  std::vector<RtcLocation> locations;
  for (const std::string& folder : packages) {
    for (const std::string_view inside : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}) {
      locations.push_back({"the Python package nvidia-cuda-nvrtc", fmt::format("{}/{}", folder, inside)});
    }
  }
  if (!cuda_home.empty()) {
    for (const std::string_view inside : {"lib64", "lib"}) {
      locations.push_back({"CUDA_HOME", fmt::format("{}/{}", cuda_home, inside)});
    }
  }
  locations.push_back({"the system's loader", ""});
  return locations;
}

Result<RtcLibrary> open_nvrtc(std::span<const RtcLocation> locations) {
  Result<RtcLibrary> library = open_rtc(nvrtc_make, locations);
  if (library || is_scarce(library)) return library;
  return fail(ErrorKind::no_kernel,
              fmt::format("no NVRTC (CUDA's run-time compiler); searched {}; install it with 'pip install "
                          "nvidia-cuda-nvrtc', or set CUDA_HOME to a CUDA toolkit or REGARD_NVRTC to "
                          "libnvrtc.so.13",
                          library.error().message));
}

}  // namespace regard
