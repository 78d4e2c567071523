#include "emulated/device.h"

#include <cstdlib>

namespace regard::test {
namespace {

[[maybe_unused]] const int emulated_compiler = setenv("REGARD_NVRTC", EMULATED_NVRTC, 1);

}  // namespace

std::string emulated_target() {
  const char* const capability = std::getenv("EMULATED_CAPABILITY");
  if (capability == nullptr || std::string(capability) == "90") return "sm_90a";
  return "sm_" + std::string(capability);
}

}  // namespace regard::test
