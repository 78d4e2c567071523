// Tensor maps of the boxes that kernels load and store (plan/tensor_box.h).
#pragma once

#include <array>

#include "device/gpu.h"
#include "plan/tensor_box.h"

namespace regard {

/// Valid until the thread's next call.
using TensorMaps = std::array<const gpu::TensorMap*, std::tuple_size_v<decltype(TensorBoxes::box)>>;

/// One map for each box. Remembered per thread, so that a call with the tensors of one of its last hundred
/// calls encodes nothing. The device must be in use.
Status tensor_maps(const gpu::Device&, const TensorBoxes&, TensorMaps&);

}  // namespace regard
