// Tensors as the tensor memory unit (TMA) of Hopper and later chips reads and writes them.
#pragma once

#include "device/cuda.h"
#include "kernels/arguments.h"
#include "plan/plan.h"

namespace regard {

/// Whether a stage's kernel takes tensor maps of Q, K, V and O before its arguments.
bool takes_tensor_maps(const Stage&);

/// Whether every stage can reach these tensors; else why not. TMA wants starts and strides in whole 16 bytes
/// (CUDA driver API, cuTensorMapEncodeTiled), and so do threads that store O.
Status tma_reaches(const Plan&, const Arguments&);

/// Until the thread's next call.
struct TensorMaps {
  const cuda::TensorMap *q, *k, *v;
  const cuda::TensorMap* o;  ///< any map, where the kernel stores O without one
};

/// Of tensors that tma_reaches accepts. Remembered per thread, so that a call with tensors of one of its last
/// hundred calls encodes nothing. The device must be in use.
Status tensor_maps(const Plan&, const Stage&, const Arguments&, TensorMaps&);

}  // namespace regard
