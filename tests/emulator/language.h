// CUDA C++ as the host's compiler understands it: what NVRTC predefines. A translated kernel begins with
// this file; translate.h turned its `asm` statements and shared variables into calls of it.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "emulator/runtime.h"

extern "C" __attribute__((visibility("default"))) emulator::Runtime* emulator_runtime;

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __builtin_assume(...)
#define __align__(bytes) alignas(bytes)

// Declarations from <cmath>, which would take a fifth of a kernel's compile time.
extern "C" {
float copysignf(float, float);
float expf(float);
float fabsf(float);
float fmaf(float, float, float);
float fmaxf(float, float);
float fminf(float, float);
float logf(float);
double sqrt(double);
}

#define threadIdx (emulator_runtime->position.thread)
#define blockIdx (emulator_runtime->position.block)
#define blockDim (emulator_runtime->position.block_size)
#define gridDim (emulator_runtime->position.grid_size)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
inline int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}

template <class A, class B>
constexpr auto min(A a, B b) {
  using Common = std::common_type_t<A, B>;
  return static_cast<Common>(b) < static_cast<Common>(a) ? static_cast<Common>(b) : static_cast<Common>(a);
}
template <class A, class B>
constexpr auto max(A a, B b) {
  using Common = std::common_type_t<A, B>;
  return static_cast<Common>(a) < static_cast<Common>(b) ? static_cast<Common>(b) : static_cast<Common>(a);
}

inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}
/// Four of the eight bytes of y and x, selected by the low three bits of four digits.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned digits) {
  const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(both >> 8 * (digits >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}
template <class T>
T __ldg(const T* pointer) {
  return *pointer;
}

inline std::size_t __cvta_generic_to_shared(const void* pointer) {
  return emulator_runtime->shared_address(pointer);
}

// Threads of a launch run in turns, so that a plain access is atomic.
template <class T>
T atomicMax(T* place, T value) {
  return std::exchange(*place, *place < value ? value : *place);
}
template <class T>
T atomicMin(T* place, T value) {
  return std::exchange(*place, value < *place ? value : *place);
}
template <class T>
T atomicAdd(T* place, T value) {
  return std::exchange(*place, *place + value);
}
inline unsigned atomicInc(unsigned* place, unsigned last) {
  return std::exchange(*place, *place >= last ? 0 : *place + 1);
}

namespace emulator {

template <class T>
T together(Collective what, T value, unsigned argument) {
  static_assert(sizeof(T) == 4);
  return std::bit_cast<T>(emulator_runtime->together(what, std::bit_cast<unsigned>(value), argument));
}

/// An operand, read or written: a temporary also has an address while its statement is executed.
template <class T>
Operand operand(T&& value) {
  return {const_cast<void*>(static_cast<const void*>(&value)), sizeof(value), nullptr};
}
inline Operand text(const char* words) {
  return {nullptr, 0, words};
}

inline void execute(Site& site, std::initializer_list<Operand> operands) {
  emulator_runtime->execute(site, operands.begin(), static_cast<int>(operands.size()));
}

/// A variable of the block's shared memory.
template <class T, int number>
T& shared_variable() {
  static_assert(sizeof(T) <= fixed_memory_bytes && number < fixed_variables);
  return *static_cast<T*>(emulator_runtime->fixed_memory(number));
}

template <class... Parameters, std::size_t... i>
void call(void (*kernel)(Parameters...), void** parameters, std::index_sequence<i...>) {
  kernel(*static_cast<Parameters*>(parameters[i])...);
}
/// Calls a kernel with the parameters of a launch.
template <class... Parameters>
void call(void (*kernel)(Parameters...), void** parameters) {
  call(kernel, parameters, std::index_sequence_for<Parameters...>());
}

}  // namespace emulator

template <class T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  return emulator::together(emulator::Collective::shuffle, value, lane);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned bits) {
  return emulator::together(emulator::Collective::shuffle_xor, value, bits);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned lanes) {
  return emulator::together(emulator::Collective::shuffle_up, value, lanes);
}
inline bool __any_sync(unsigned, bool value) {
  return emulator::together(emulator::Collective::any, unsigned{value}, 0) != 0;
}
inline unsigned __ballot_sync(unsigned, bool value) {
  return emulator::together(emulator::Collective::ballot, unsigned{value}, 0);
}
template <class T>
T __reduce_add_sync(unsigned, T value) {
  return emulator::together(emulator::Collective::sum, value, 0);
}
inline void __syncwarp() {
  emulator_runtime->together(emulator::Collective::nothing, 0, 0);
}
inline void __syncthreads() {
  emulator_runtime->sync_block(false);
}
inline bool __syncthreads_or(bool value) {
  return emulator_runtime->sync_block(value);
}
