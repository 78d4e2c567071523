// Q, K and V as the tensor memory unit (TMA) of Hopper and later chips reads them.
#pragma once

#include "device/cuda.h"
#include "kernels/arguments.h"
#include "plan/plan.h"

namespace regard {

/// Whether a stage's kernel takes tensor maps of Q, K and V before its arguments.
bool reads_by_tma(const Stage&);

/// Whether every stage can read these tensors; else why not. TMA wants starts and strides in whole 16 bytes
/// (CUDA driver API, cuTensorMapEncodeTiled).
Status tma_reads(const Plan&, const Arguments&);

/// Until the thread's next call.
struct TensorMaps {
  const cuda::TensorMap *q, *k, *v;
};

/// Of tensors that tma_reads accepts. Remembered per thread, so that a call with tensors of one of its last
/// hundred calls encodes nothing. The device must be in use.
Status tensor_maps(const Plan&, const Stage&, const Arguments&, TensorMaps&);

}  // namespace regard
