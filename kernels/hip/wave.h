// Definitions shared by kernels for AMD GPUs: a wave, its two parts of lanes, and the words of the language.
#pragma once

#include "kernels/arguments.h"

namespace regard {

#define REGARD_DEVICE __attribute__((device, always_inline)) inline
#define REGARD_SHARED __attribute__((shared))
/// The kernel, whose parameter is `arguments`; then its threads and, if more than one of its blocks has to be
/// resident on a compute unit, how many.
#define REGARD_KERNEL(Arguments, ...)                                                                      \
  extern "C" __attribute__((                                                                               \
      global,                                                                                              \
      amdgpu_flat_work_group_size(regard::block_threads(__VA_ARGS__), regard::block_threads(__VA_ARGS__)), \
      amdgpu_waves_per_eu(regard::waves_per_simd(__VA_ARGS__), regard::waves_per_simd(__VA_ARGS__)))) void \
  REGARD_SYMBOL(const Arguments arguments)
/// The block's dynamic shared memory.
#define REGARD_DYNAMIC_MEMORY(name, alignment) \
  extern __attribute__((shared, aligned(alignment))) unsigned char name[]

constexpr i32 wave = target::wave;  // lanes

/// Rows and columns of a matrix product of a wave. Lanes with the same number modulo this share a row.
constexpr i32 edge = wave / 2;

constexpr int block_threads(i32 threads, i64 = 1) {
  return threads;
}
// By this the library requests more waves of a SIMD than a kernel does, if there are registers for them.
#ifndef REGARD_LEAST_WAVES
#define REGARD_LEAST_WAVES 1
#endif

/// The compiler gives a lane as many registers as so many waves leave it, and not one more. There are at
/// least 128.
constexpr int waves_per_simd(i32 threads, i64 resident_blocks = 1) {
  constexpr int simds = 4, least = REGARD_LEAST_WAVES, most = wave == 64 ? 4 : 8;
  const int waves = static_cast<int>(resident_blocks) * threads / (wave * simds);
  return waves < least ? least : waves > most ? most : waves;
}

/// Shared memory by its 32-bit address.
template <class T>
using LdsPointer = __attribute__((address_space(3))) T*;

/// Global memory: a pointer that was kept in shared memory does not say that it points there, and accesses by
/// it would wait for both.
template <class T>
using GlobalPointer = __attribute__((address_space(1))) T*;
template <class T>
REGARD_DEVICE GlobalPointer<T> global(T* pointer) {
  return GlobalPointer<T>(pointer);
}

/// The address in shared memory, as instructions take it.
REGARD_DEVICE u32 shared_address(const void* pointer) {
  return u32(LdsPointer<const void>(pointer));
}

/// Vectors of the compiler's own.
template <i32 count>
struct WordsOf;
template <>
struct WordsOf<1> {
  typedef u32 Vector __attribute__((vector_size(4)));
};
template <>
struct WordsOf<2> {
  typedef u32 Vector __attribute__((vector_size(8)));
};
template <>
struct WordsOf<4> {
  typedef u32 Vector __attribute__((vector_size(16)));
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  u32 x, y;
};
struct alignas(16) uint4 {
  u32 x, y, z, w;
};

REGARD_DEVICE float fabsf(float x) {
  return __builtin_fabsf(x);
}
REGARD_DEVICE float expf(float x) {
  return __builtin_expf(x);
}
REGARD_DEVICE float logf(float x) {
  return __builtin_logf(x);
}
REGARD_DEVICE float fmaf(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
REGARD_DEVICE float fmaxf(float x, float y) {
  return __builtin_fmaxf(x, y);
}

}  // namespace regard
