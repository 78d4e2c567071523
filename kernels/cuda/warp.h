// Definitions shared by kernels for NVIDIA GPUs: a warp, and the four neighbouring lanes that hold a row of
// a matrix product.
#pragma once

#include "kernels/arguments.h"

namespace regard {

#define REGARD_DEVICE __device__ __forceinline__
/// The kernel, whose parameter is `arguments`; then its threads and, if more than one of its blocks has to be
/// resident on a multiprocessor, how many.
#define REGARD_KERNEL(Arguments, ...)                       \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) \
      REGARD_SYMBOL(const __grid_constant__ Arguments arguments)
#define REGARD_SHARED __shared__
/// The block's dynamic shared memory.
#define REGARD_DYNAMIC_MEMORY(name, alignment) \
  extern __shared__ __align__(alignment)       \
  unsigned char name[]

constexpr i32 wave = target::wave;  // threads of a warp
constexpr u32 whole_warp = 0xffffffffu;

/// A pointer to global memory; the compiler finds out by itself.
template <class T>
REGARD_DEVICE T* global(T* pointer) {
  return pointer;
}

/// The address in shared memory, as instructions take it.
REGARD_DEVICE u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

REGARD_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(whole_warp, x, 1));
  return fmaxf(x, __shfl_xor_sync(whole_warp, x, 2));
}
REGARD_DEVICE float quad_sum(float x) {
  x += __shfl_xor_sync(whole_warp, x, 1);
  return x + __shfl_xor_sync(whole_warp, x, 2);
}

}  // namespace regard
