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

struct TensorMaps {
  cuda::TensorMap q, k, v;
};

/// Of tensors that tma_reads accepts. The device must be in use.
Result<TensorMaps> tensor_maps(const Plan&, const Stage&, const Arguments&);

}  // namespace regard
