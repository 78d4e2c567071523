// The emulated GPU of this program: tests/emulator provides the driver and the compiler that it finds in
// place of NVIDIA's.
#pragma once

#include <string>

namespace regard::test {

/// The target that the emulated device runs, from EMULATED_CAPABILITY: "sm_90a", or another CUDA target.
std::string emulated_target();

/// Sets the order of events of launches during its lifetime.
class Seed {
 public:
  explicit Seed(int number);
  ~Seed();
  Seed(const Seed&) = delete;
  Seed& operator=(const Seed&) = delete;
};

}  // namespace regard::test
