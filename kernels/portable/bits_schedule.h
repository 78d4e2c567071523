// The schedule that the plan passes to bits.cu, with the tensors of a call, which the engine adds
// (src/engine/bind_function.cpp).
#pragma once

#include "kernels/function/written_bits.h"
#include "kernels/kernel_arguments.h"

namespace regard {

/// A tensor that a mask reads. Dimensions that it does not have are of size 1.
struct MaskTensor {
  const void* data;
  i64 dtype;  // enum regard_dtype of include/regard/regard.h
  i64 sizes[4], strides[4];
};

/// What a mask reads besides its place.
struct MaskCall {
  u32 numbers[16];
  MaskTensor tensors[8];
};

struct PortableBitsSchedule : WrittenBits {
  MaskCall call;
};

using PortableBitsArguments = KernelArguments<PortableBitsSchedule>;

/// What a thread writes: consecutive words of one row. A block has rows next to each other.
constexpr i32 mask_words = 8, mask_warps = 4;

}  // namespace regard
