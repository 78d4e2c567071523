// What the text of a mask that is compiled reads (src/compile/function_source.cpp): a place of the score
// matrix, and the numbers and tensors of a call.
#pragma once

#include "kernels/function/interval.h"
#include "kernels/function/scalar.h"
#include "kernels/machine/thread.h"
#include "kernels/portable/element.h"
#include "kernels/portable/mask_call.h"

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

REGARD_DEVICE Interval single_of(u32 number) {
  return {signed_of(number), signed_of(number)};
}

/// What a tensor has for several rows and keys, whose indices may differ.
template <Type type>
REGARD_DEVICE Interval load_any(const MaskTensor& tensor, bool at_one_place, Indices indices) {
  return at_one_place ? single_of(load<type>(tensor, indices)) : any_of(type);
}

/// The numbers that a function has for several rows, or for several keys, without the other side.
template <i32 count>
struct Intervals {
  i32 low[count > 0 ? count : 1], high[count > 0 ? count : 1];

  REGARD_DEVICE Interval operator[](i32 i) const { return {low[i], high[i]}; }

  REGARD_DEVICE void join(const u32 (&numbers)[count > 0 ? count : 1], bool is_first) {
#pragma unroll
    for (i32 i = 0; i < count; ++i) {
      const i32 x = signed_of(numbers[i]);
      low[i] = is_first ? x : smaller(low[i], x);
      high[i] = is_first ? x : larger(high[i], x);
    }
  }
  /// With those of the other lanes of a group of neighbours.
  REGARD_DEVICE void join_lanes(i32 lanes) {
#pragma unroll 1
    for (i32 distance = 1; distance < lanes; distance *= 2) {
#pragma unroll
      for (i32 i = 0; i < count; ++i) {
        low[i] = smaller(low[i], signed_of(from_lane(static_cast<u32>(low[i]), lane() ^ distance)));
        high[i] = larger(high[i], signed_of(from_lane(static_cast<u32>(high[i]), lane() ^ distance)));
      }
    }
  }
};

}  // namespace function
}  // namespace regard
