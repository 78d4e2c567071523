// What the text of a mask that is compiled reads (src/compile/function_source.cpp): a place of the score
// matrix, and the numbers and tensors of a call.
#pragma once

#include "kernels/function/scalar.h"
#include "kernels/portable/bits_schedule.h"
#include "kernels/portable/element.h"

namespace regard {

/// The variables of functions, by their names there.
struct MaskPlace {
  i32 b, h, hk, q, kv, p, sq, sk, tq, tk;
};

namespace function {

/// The indices of an element; the tensor has that many dimensions.
struct Indices {
  u32 of[4];
};

/// An element as the function reads it. Indices are clamped to the tensor.
template <Type type>
REGARD_DEVICE auto load(const MaskTensor& tensor, Indices indices) {
  i64 place = 0;
#pragma unroll
  for (i32 k = 0; k < 4; ++k) {
    const i64 index = signed_of(indices.of[k]);
    place += larger<i64>(0, smaller(index, tensor.sizes[k] - 1)) * tensor.strides[k];
  }
  const u8* const bytes = static_cast<const u8*>(tensor.data);
  if constexpr (type == Type::real) {
    if (tensor.dtype == static_cast<i32>(DType::fp32)) return load_element<DType::fp32>(bytes, place);
    if (tensor.dtype == static_cast<i32>(DType::bf16)) return load_element<DType::bf16>(bytes, place);
    return load_element<DType::fp16>(bytes, place);
  } else {
    if (tensor.dtype == captured_int64)
      return static_cast<u32>(global(reinterpret_cast<const i64*>(bytes))[place]);
    if (tensor.dtype != captured_uint8) return global(reinterpret_cast<const u32*>(bytes))[place];
    const u32 byte = global(bytes)[place];
    return type == Type::boolean ? u32{byte != 0} : byte;
  }
}

}  // namespace function
}  // namespace regard
