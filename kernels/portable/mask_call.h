// What a stage that is compiled for a mask gets besides the numbers of its own. The engine adds the tensors
// of a call (src/engine/bind_function.cpp).
#pragma once

#include "kernels/arguments.h"

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

struct MaskSchedule {
  MaskCall call;
  u8 captured[8];  // which of the problem's tensors each is; 8: there is none
};

}  // namespace regard
