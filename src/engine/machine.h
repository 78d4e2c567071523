// What this machine can run.
#pragma once

#include <string>

#include "base/result.h"
#include "device/cuda.h"
#include "plan/target.h"

namespace regard {

/// Nothing when this machine can run the target's kernels, else the sentence that says what is missing.
Status runnable(const Target&);

/// The most preferred target with kernels that this machine can run, not above REGARD_CPU_TARGET.
Result<const Target*> best_target();

/// The most preferred CUDA target for the calling thread's device.
Result<const Target*> best_cuda_target();

/// Nothing when the device can run the target's kernels. Machine code runs on devices of its major compute
/// capability and at least its minor one; that of a target whose name ends with a letter on no others.
Status runs_on(const Target&, const cuda::Device&);

/// Threads for CPU targets: `requested`, else REGARD_THREADS, else all cores this process may use.
Result<int> thread_count(int requested);

/// "AMD EPYC 9654 96-Core Processor", or "unknown CPU" where the system does not say.
std::string cpu_model();

}  // namespace regard
