// Tensors as the tensor memory unit (TMA) of Hopper and later chips reads and writes them.
#pragma once

#include "device/gpu.h"
#include "kernels/arguments.h"
#include "plan/plan.h"

namespace regard {

/// Whether a stage's kernel takes tensor maps of Q, K, V and O before its arguments.
bool takes_tensor_maps(const Stage&);

/// Whether the Hopper kernels of a plan can read and write these tensors; else why not. The tensor memory
/// unit wants starts and strides in whole 16 bytes (CUDA driver API, cuTensorMapEncodeTiled), and so do
/// threads that store O; a merge of parts does not.
Status hopper_takes(const Plan&, const Arguments&);

/// Until the thread's next call.
struct TensorMaps {
  const gpu::TensorMap *q, *k, *v;
  const gpu::TensorMap* o;  ///< any map, where the kernel stores O without one
};

/// Of tensors that hopper_takes accepts. Remembered per thread, so that a call with tensors of one of its
/// last hundred calls encodes nothing. The device must be in use.
Status tensor_maps(const Plan&, const Stage&, const Arguments&, TensorMaps&);

}  // namespace regard
