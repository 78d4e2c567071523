// A libcuda.so.1 and a libamdhip64.so.6 with two devices each, whose memory is the host's (host_device.h),
// and a record of the requests to them, so that the path to a GPU is tested without one. Kernels compute
// nothing here (cuda_records.cpp, hip_records.cpp), unlike in tests/emulator.
#pragma once

#include <atomic>

#include "device/gpu.h"

namespace regard::test {

struct FakeLaunch {
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
  gpu::Stream stream = nullptr;
  unsigned cluster = 1;   ///< blocks in one
  bool overlaps = false;  ///< may begin while the previous launch ends
};

/// Of both makes; a number for each device is for the devices of that ordinal.
struct FakeDriver {
  static constexpr int devices = 2;

  int capability[devices] = {90, 80};  ///< CUDA: compute capability, in tenths
  int multiprocessors[devices] = {132, 108};
  const char* error_text = "a fake error";  ///< for all errors but out_of_memory
  std::atomic<int> loads[devices]{};        ///< modules loaded
  std::atomic<int> launches{0}, pushed{0}, popped{0}, encoded{0}, fills{0};
  std::atomic<int> asked{0};         ///< queries for the device of an address
  std::atomic<int> held{0};          ///< allocations that are not freed yet
  int capturing = 0;                 ///< whether a stream is said to be captured
  int launch_code = 0;               ///< status of a launch
  int fill_code = 0;                 ///< status of clearing memory
  int number_code = 0;               ///< CUDA: status of asking for a stream's number
  long long most_bytes = 1ll << 40;  ///< limit of one allocation
  void (*on_launch)(const FakeLaunch&, void** parameters) = nullptr;
  const char* chip[devices] = {"gfx942:sramecc+:xnack-", "gfx1100"};  ///< HIP
};

extern "C" __attribute__((visibility("default"))) FakeDriver* fake_driver();
/// Makes a device of each make current on this thread: CUDA's by its primary context; -1: none, and the first
/// of HIP's.
extern "C" __attribute__((visibility("default"))) void fake_use(int device);
/// The failure that HIP would report to this thread next.
extern "C" __attribute__((visibility("default"))) int fake_last_error();

/// The streams waited for since the last call of this function, each with the number of launches before it:
/// "7@0 9@1".
extern "C" __attribute__((visibility("default"))) const char* fake_waits();

}  // namespace regard::test
