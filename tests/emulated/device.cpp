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

Seed::Seed(int number) {
  setenv("EMULATOR_SEED", std::to_string(number).c_str(), 1);
}
Seed::~Seed() {
  unsetenv("EMULATOR_SEED");
}

}  // namespace regard::test
