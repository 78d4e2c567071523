// Launching a plan's stages on a GPU.
#pragma once

#include <optional>

#include "device/gpu.h"
#include "engine/prepared.h"
#include "regard/regard.h"

namespace regard {

/// The tensors must have passed check_tensors; the workspace must be large enough. Missing kernels are
/// obtained first. The stages are enqueued in the stream, and nothing is waited for.
Status run_on_gpu(PreparedPlan&, const regard_arguments&, void* workspace, gpu::Stream);

/// The tensor that determines the device of a call: Q where it has elements, else another one that has some.
/// None where no output has any, so that there is nothing to compute.
std::optional<regard_role> leading_tensor(const TensorSpecs&, const regard_arguments&);

/// Sets a part of the tensor of that role to 0 in stream order.
Status clear_on_gpu(const Target&, regard_role, void* memory, std::int64_t bytes, gpu::Stream);

/// Loads the kernels into a device, so that launches need not, even while a stream is captured.
Status load_on_gpu(const PreparedPlan::Ready&, const gpu::Device&);

}  // namespace regard
