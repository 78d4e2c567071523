// Launching a plan's stages on a GPU.
#pragma once

#include "device/gpu.h"
#include "engine/prepared.h"
#include "regard/regard.h"

namespace regard {

/// The tensors must have passed check_tensors; the workspace is large enough. Kernels that are missing are
/// got first. The stages are put into the stream, and nothing is waited for.
Status run_on_gpu(PreparedPlan&, const regard_arguments&, void* workspace, gpu::Stream);

/// Loads the kernels into a device, so that launches, also while a stream is captured, need not.
Status load_on_gpu(const PreparedPlan::Ready&, const gpu::Device&);

}  // namespace regard
