// A libcuda.so.1 with two devices whose memory is the host's (host_device.cpp), and a record of the requests
// to them, so that the path to a GPU is tested without one. Kernels compute nothing here (fake_driver.cpp),
// unlike in tests/emulator.
#pragma once

#include <atomic>

#include "device/cuda/driver.h"

namespace regard::test {

struct FakeDriver {
  static constexpr int devices = 2;

  int capability[devices] = {90, 80};  ///< compute capability, in tenths
  int multiprocessors[devices] = {132, 108};
  const char* error_text = "a fake error";  ///< for all errors but out_of_memory
  std::atomic<int> loads[devices]{};        ///< modules loaded
  std::atomic<int> launches{0}, pushed{0}, popped{0}, encoded{0}, fills{0};
  std::atomic<int> asked{0};         ///< queries for the device of an address
  std::atomic<int> held{0};          ///< allocations that are not freed yet
  int capturing = 0;                 ///< result of cuStreamIsCapturing
  int launch_code = 0;               ///< status of a launch
  int fill_code = 0;                 ///< status of clearing memory
  int number_code = 0;               ///< status of asking for a stream's number
  long long most_bytes = 1ll << 40;  ///< limit of one allocation
  void (*on_launch)(const cuda::LaunchConfiguration&, void** parameters) = nullptr;
};

extern "C" __attribute__((visibility("default"))) FakeDriver* fake_driver();
/// Makes a device's primary context current on this thread; -1: none.
extern "C" __attribute__((visibility("default"))) void fake_use(int device);

/// The streams waited for since the last call of this function, each with the number of launches before it:
/// "7@0 9@1".
extern "C" __attribute__((visibility("default"))) const char* fake_waits();

}  // namespace regard::test
