// What this machine can run.
#pragma once

#include <string>

#include "base/result.h"
#include "device/gpu.h"
#include "plan/target.h"

namespace regard {

/// Success when this machine can run the target's kernels, else the sentence that says what is missing.
Status runnable(const Target&);

/// The most preferred target with kernels that this machine can run, not above REGARD_CPU_TARGET.
Result<const Target*> best_target();

/// The backend for a GPU target.
const gpu::Backend& backend_of(const Target&);

/// The most preferred target for the calling thread's device.
Result<const Target*> best_gpu_target(const gpu::Backend&);

/// Threads for CPU targets: `requested`, else REGARD_THREADS, else all cores that this process can use.
Result<int> thread_count(int requested);

/// "AMD EPYC 9654 96-Core Processor", or "unknown CPU" where the system does not report it.
std::string cpu_model();

}  // namespace regard
