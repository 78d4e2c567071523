// The emulated GPU of this program: tests/emulator has the driver and the compiler that it finds in place of
// NVIDIA's.
#pragma once

#include <string>

namespace regard::test {

/// What the emulated device runs, by EMULATED_CAPABILITY: "sm_90a", or another CUDA target.
std::string emulated_target();

/// The order of events of the launches during its life.
class Seed {
 public:
  explicit Seed(int number);
  ~Seed();
  Seed(const Seed&) = delete;
  Seed& operator=(const Seed&) = delete;
};

}  // namespace regard::test
