// A libcuda.so.1 of two devices whose memory is the host's (host_device.cpp), and a record of what was asked
// of them, so that the road to a GPU is tested where none is. Kernels compute nothing here (fake_driver.cpp);
// in tests/emulator they do.
#pragma once

#include <atomic>

#include "device/cuda/driver.h"

namespace regard::test {

struct FakeDriver {
  static constexpr int devices = 2;

  int capability[devices] = {90, 80};  ///< of computing, in tenths
  int multiprocessors[devices] = {132, 108};
  const char* error_text = "a fake error";  ///< of all but out_of_memory
  std::atomic<int> loads[devices]{};        ///< modules loaded
  std::atomic<int> launches{0}, pushed{0}, popped{0}, encoded{0}, fills{0};
  std::atomic<int> asked{0};         ///< where memory lies
  std::atomic<int> held{0};          ///< allocations that were not given back yet
  int capturing = 0;                 ///< what cuStreamIsCapturing says
  int launch_code = 0;               ///< what a launch gives
  int fill_code = 0;                 ///< what clearing memory gives
  int number_code = 0;               ///< what the number of a stream gives
  long long most_bytes = 1ll << 40;  ///< of one allocation
  void (*on_launch)(const cuda::LaunchConfiguration&, void** parameters) = nullptr;
};

extern "C" __attribute__((visibility("default"))) FakeDriver* fake_driver();
/// Makes a device's primary context current on this thread; -1: none.
extern "C" __attribute__((visibility("default"))) void fake_use(int device);

/// The streams that were waited for since the last question, and after how many launches: "7@0 9@1".
extern "C" __attribute__((visibility("default"))) const char* fake_waits();

}  // namespace regard::test
