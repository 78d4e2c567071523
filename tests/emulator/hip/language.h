// AMD's builtins and HIP's language as the host's compiler understands them. A translated kernel begins with
// this file; translate.h turned its pointers to LDS and its shared variables into what is defined here.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "emulator/hip/runtime.h"

extern "C" __attribute__((visibility("default"))) emulator::hip::Runtime* emulator_runtime;

#define __builtin_assume(...)

#define EMULATED inline __attribute__((always_inline))

namespace emulator::hip {

/// What a pointer to LDS points to: each read and each write of it is checked.
template <class T>
struct LdsPlace {
  using Value = std::remove_cv_t<T>;
  std::uint32_t address;

  EMULATED operator Value() const {
    Value value;
    std::memcpy(&value, emulator_runtime->lds(address, sizeof value, alignof(Value), false), sizeof value);
    return value;
  }
  EMULATED const LdsPlace& operator=(const Value& value) const {
    std::memcpy(emulator_runtime->lds(address, sizeof value, alignof(Value), true), &value, sizeof value);
    return *this;
  }
  EMULATED const LdsPlace& operator=(const LdsPlace& from) const { return *this = static_cast<Value>(from); }
  EMULATED const LdsPlace& operator+=(const Value& more) const {
    return *this = static_cast<Value>(*this) + more;
  }
};

/// A pointer to LDS. It is 32-bit, as on the GPU.
template <class T>
class LdsPointer {
 public:
  LdsPointer() = default;
  template <class Integer>
    requires std::is_integral_v<Integer>
  explicit LdsPointer(Integer address) : address_(static_cast<std::uint32_t>(address)) {}
  explicit LdsPointer(const volatile void* pointer)
      : address_(emulator_runtime->lds_address(const_cast<const void*>(pointer))) {}
  template <class Other>
  explicit(!std::is_void_v<T>) LdsPointer(LdsPointer<Other> other)
      : address_(static_cast<std::uint32_t>(other)) {}

  EMULATED LdsPlace<T> operator*() const { return {address_}; }
  EMULATED LdsPlace<T> operator[](std::int64_t i) const { return *(*this + i); }
  EMULATED LdsPointer operator+(std::int64_t n) const {
    return LdsPointer(address_ + static_cast<std::uint32_t>(n * static_cast<std::int64_t>(sizeof(T))));
  }
  template <class Integer>
    requires std::is_integral_v<Integer>
  explicit operator Integer() const {
    return static_cast<Integer>(address_);
  }

 private:
  std::uint32_t address_;
};

template <class T, int number>
T& static_variable() {
  static_assert(sizeof(T) <= static_bytes && number < static_variables);
  return *static_cast<T*>(emulator_runtime->static_memory(number));
}

template <class... Parameters, std::size_t... i>
void call(void (*kernel)(Parameters...), void** parameters, std::index_sequence<i...>) {
  kernel(*static_cast<std::remove_cvref_t<Parameters>*>(parameters[i])...);
}
/// Calls a kernel with the parameters of a launch.
template <class... Parameters>
void call(void (*kernel)(Parameters...), void** parameters) {
  call(kernel, parameters, std::index_sequence_for<Parameters...>());
}

using Floats4 = float __attribute__((vector_size(16)));
using Floats8 = float __attribute__((vector_size(32)));
using Floats16 = float __attribute__((vector_size(64)));
using Words2 = unsigned __attribute__((vector_size(8)));

template <class Operand, class Sums>
EMULATED Sums multiply(Builtin& builtin, const Operand& left, const Operand& right, const Sums& addend) {
  Sums sums;
  Product mine{&left, &right, reinterpret_cast<const float*>(&addend), reinterpret_cast<float*>(&sums)};
  emulator_runtime->together(builtin, &mine);
  return sums;
}

EMULATED std::uint32_t exchange(Builtin& builtin, Exchange mine) {
  emulator_runtime->together(builtin, &mine);
  return mine.result[0];
}

EMULATED Words2 exchange_two(Builtin& builtin, Exchange mine) {
  emulator_runtime->together(builtin, &mine);
  return Words2{mine.result[0], mine.result[1]};
}

/// A lane's own atomic operation is one, as lanes run in turns.
template <class T>
T& atomic_place(T* place) {
  return *place;
}
template <class T>
LdsPlace<T> atomic_place(LdsPointer<T> place) {
  return *place;
}

/// The transcendental instructions take numbers below the normal ones as 0 and return 0 for them, also where
/// the mode keeps such numbers: around v_exp_f32 clang therefore scales what exp2f is given, but not here.
inline float flushed(float x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}

}  // namespace emulator::hip

// ---- positions
EMULATED unsigned __builtin_amdgcn_workitem_id_x() {
  return emulator_runtime->position.thread.x;
}
EMULATED unsigned __builtin_amdgcn_workgroup_id_x() {
  return emulator_runtime->position.block.x;
}
EMULATED unsigned short __builtin_amdgcn_workgroup_size_x() {
  return static_cast<unsigned short>(emulator_runtime->position.block_size.x);
}
/// In lanes, not in blocks.
EMULATED unsigned __builtin_amdgcn_grid_size_x() {
  return emulator_runtime->position.grid_size.x * emulator_runtime->position.block_size.x;
}
EMULATED unsigned __builtin_amdgcn_wavefrontsize() {
  return emulator_runtime->wave;
}
EMULATED unsigned __builtin_amdgcn_mbcnt_lo(unsigned mask, unsigned more) {
  const unsigned lane = emulator_runtime->position.thread.x % emulator_runtime->wave;
  return more + std::popcount(lane < 32 ? mask & ((1u << lane) - 1) : mask);
}
EMULATED unsigned __builtin_amdgcn_mbcnt_hi(unsigned mask, unsigned more) {
  const unsigned lane = emulator_runtime->position.thread.x % emulator_runtime->wave;
  return more + (lane < 32 ? 0 : std::popcount(mask & ((1u << (lane - 32)) - 1)));
}

// ---- order
EMULATED void __builtin_amdgcn_s_barrier() {
  emulator_runtime->barrier();
}
/// An argument after the scope names the memory that is ordered, if not all is: LDS is "local".
EMULATED void __builtin_amdgcn_fence(int order, const char* scope, const char* memory = "all") {
  emulator_runtime->fence(order, scope, memory);
}
EMULATED void __builtin_amdgcn_s_waitcnt(unsigned immediate) {
  emulator_runtime->wait_count(immediate);
}
EMULATED void __builtin_amdgcn_s_sleep(int) {
  emulator_runtime->pause();
}
EMULATED void __builtin_amdgcn_sched_group_barrier(int, int, int) {}
EMULATED void __builtin_amdgcn_sched_barrier(int) {}
EMULATED void __builtin_amdgcn_iglp_opt(int) {}
EMULATED void __builtin_amdgcn_s_setprio(int) {}
/// Lanes that run in lockstep on the GPU meet here: what one has written before, the others can read.
EMULATED void __builtin_amdgcn_wave_barrier() {
  static emulator::hip::Builtin builtin{"wave_barrier"};
  emulator_runtime->together(builtin, nullptr);
}

// ---- matrix instructions; for `short`, also where the builtin takes __bf16, which this compiler lacks
#define EMULATED_MFMA(name, Sums)                                                              \
  template <class Operand>                                                                     \
  EMULATED emulator::hip::Sums __builtin_amdgcn_##name(                                        \
      Operand left, Operand right, emulator::hip::Sums addend, int cbsz, int abid, int blgp) { \
    static emulator::hip::Builtin builtin{#name};                                              \
    if ((cbsz | abid | blgp) != 0) __builtin_trap();                                           \
    return emulator::hip::multiply(builtin, left, right, addend);                              \
  }
EMULATED_MFMA(mfma_f32_32x32x8f16, Floats16)
EMULATED_MFMA(mfma_f32_32x32x8bf16_1k, Floats16)
EMULATED_MFMA(mfma_f32_16x16x16f16, Floats4)
EMULATED_MFMA(mfma_f32_16x16x16bf16_1k, Floats4)
EMULATED_MFMA(mfma_f32_32x32x2f32, Floats16)
EMULATED_MFMA(mfma_f32_16x16x4f32, Floats4)
EMULATED_MFMA(mfma_f32_32x32x16_f16, Floats16)
EMULATED_MFMA(mfma_f32_32x32x16_bf16, Floats16)
EMULATED_MFMA(mfma_f32_16x16x32_f16, Floats4)
EMULATED_MFMA(mfma_f32_16x16x32_bf16, Floats4)
#undef EMULATED_MFMA

#define EMULATED_WMMA(name)                                                                \
  template <class Operand>                                                                 \
  EMULATED emulator::hip::Floats8 __builtin_amdgcn_##name(Operand left, Operand right,     \
                                                          emulator::hip::Floats8 addend) { \
    static emulator::hip::Builtin builtin{#name};                                          \
    return emulator::hip::multiply(builtin, left, right, addend);                          \
  }
EMULATED_WMMA(wmma_f32_16x16x16_f16_w32)
EMULATED_WMMA(wmma_f32_16x16x16_bf16_w32)
EMULATED_WMMA(wmma_f32_16x16x16_f16_w32_gfx12)
EMULATED_WMMA(wmma_f32_16x16x16_bf16_w32_gfx12)
#undef EMULATED_WMMA

// ---- words of other lanes
EMULATED int __builtin_amdgcn_ds_bpermute(int address, int value) {
  static emulator::hip::Builtin builtin{"ds_bpermute"};
  return static_cast<int>(emulator::hip::exchange(
      builtin, {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(address)}));
}
EMULATED emulator::hip::Words2 __builtin_amdgcn_permlane32_swap(unsigned x, unsigned y, bool, bool) {
  static emulator::hip::Builtin builtin{"permlane32_swap"};
  return emulator::hip::exchange_two(builtin, {x, y});
}
EMULATED emulator::hip::Words2 __builtin_amdgcn_permlane16_swap(unsigned x, unsigned y, bool, bool) {
  static emulator::hip::Builtin builtin{"permlane16_swap"};
  return emulator::hip::exchange_two(builtin, {x, y});
}
EMULATED unsigned __builtin_amdgcn_permlanex16(unsigned old, unsigned value, unsigned low, unsigned high,
                                               bool, bool) {
  static emulator::hip::Builtin builtin{"permlanex16"};
  return emulator::hip::exchange(builtin, {value, old, low, high});
}
EMULATED unsigned __builtin_amdgcn_permlane16(unsigned old, unsigned value, unsigned low, unsigned high, bool,
                                              bool) {
  static emulator::hip::Builtin builtin{"permlane16"};
  return emulator::hip::exchange(builtin, {value, old, low, high});
}
EMULATED int __builtin_amdgcn_readfirstlane(int value) {
  static emulator::hip::Builtin builtin{"readfirstlane"};
  return static_cast<int>(emulator::hip::exchange(builtin, {static_cast<std::uint32_t>(value)}));
}
EMULATED int __builtin_amdgcn_readlane(int value, int lane) {
  static emulator::hip::Builtin builtin{"readlane"};
  return static_cast<int>(emulator::hip::exchange(
      builtin, {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(lane)}));
}
EMULATED unsigned long long __builtin_amdgcn_ballot_w64(bool value) {
  static emulator::hip::Builtin builtin{"ballot_w64"};
  return std::bit_cast<unsigned long long>(emulator::hip::exchange_two(builtin, {value}));
}
EMULATED unsigned __builtin_amdgcn_ballot_w32(bool value) {
  static emulator::hip::Builtin builtin{"ballot_w32"};
  return emulator::hip::exchange(builtin, {value});
}

// ---- numbers
/// A vector of __bf16, which is one of short here, of a vector of fp32: each rounded to nearest even.
template <class To, class From>
EMULATED To emulated_bf16(const From& from) {
  To to;
  for (unsigned i = 0; i < sizeof(From) / sizeof(float); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(from[i]));
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    to[i] = static_cast<short>((is_nan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  return to;
}
#define __builtin_convertvector(from, To) emulated_bf16<To>(from)

// ---- LDS
/// Within 16 lanes: a lane's address is that of four columns of a row, and it gets a column of four rows.
#define EMULATED_TRANSPOSED_READ(name)                                              \
  template <class Values>                                                           \
  EMULATED Values __builtin_amdgcn_##name(emulator::hip::LdsPointer<Values> from) { \
    static emulator::hip::Builtin builtin{#name};                                   \
    emulator::hip::TransposedRead mine{static_cast<std::uint32_t>(from)};           \
    emulator_runtime->together(builtin, &mine);                                     \
    return std::bit_cast<Values>(mine.result);                                      \
  }
EMULATED_TRANSPOSED_READ(ds_read_tr16_b64_v4i16)
EMULATED_TRANSPOSED_READ(ds_read_tr16_b64_v4f16)
EMULATED_TRANSPOSED_READ(ds_read_tr16_b64_v4bf16)
#undef EMULATED_TRANSPOSED_READ

EMULATED void __builtin_amdgcn_global_load_lds(const void* from, emulator::hip::LdsPointer<void> to,
                                               unsigned bytes, int offset, unsigned) {
  static emulator::hip::Builtin builtin{"global_load_lds"};
  emulator_runtime->copy_to_lds(builtin, static_cast<const char*>(from) + offset,
                                static_cast<std::uint32_t>(to) + static_cast<std::uint32_t>(offset), bytes);
}

// ---- arithmetic of one lane
/// v_perm_b32: four bytes of `high` (4 to 7) and `low` (0 to 3), by number; 8 to 11 repeat the sign of a
/// half, 12 is 0, and more is 0xff.
EMULATED unsigned __builtin_amdgcn_perm(unsigned high, unsigned low, unsigned numbers) {
  const std::uint64_t both = std::uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned number = numbers >> 8 * i & 0xff;
    unsigned byte = 0xff;
    if (number < 8)
      byte = static_cast<unsigned>(both >> 8 * number) & 0xff;
    else if (number < 12)
      byte = (both >> (16 * (number - 8) + 15) & 1) != 0 ? 0xff : 0;
    else if (number == 12)
      byte = 0;
    result |= byte << 8 * i;
  }
  return result;
}
EMULATED unsigned __builtin_amdgcn_alignbyte(unsigned high, unsigned low, unsigned bytes) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> 8 * (bytes & 3));
}
EMULATED unsigned __builtin_amdgcn_alignbit(unsigned high, unsigned low, unsigned bits) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (bits & 31));
}
EMULATED unsigned __builtin_amdgcn_ubfe(unsigned x, unsigned from, unsigned bits) {
  return static_cast<unsigned>(std::uint64_t{x} >> (from & 31) & ((std::uint64_t{1} << (bits & 31)) - 1));
}
EMULATED float __builtin_amdgcn_fmed3f(float x, float y, float z) {
  return __builtin_fmaxf(__builtin_fminf(x, y), __builtin_fminf(__builtin_fmaxf(x, y), z));
}
EMULATED float __builtin_amdgcn_exp2f(float x) {
  return emulator::hip::flushed(__builtin_exp2f(emulator::hip::flushed(x)));
}
EMULATED float __builtin_amdgcn_logf(float x) {  // to base 2
  return emulator::hip::flushed(__builtin_log2f(emulator::hip::flushed(x)));
}
EMULATED float __builtin_amdgcn_rcpf(float x) {
  return emulator::hip::flushed(1.0f / emulator::hip::flushed(x));
}

// ---- atomic operations
#define __HIP_MEMORY_SCOPE_SINGLETHREAD 1
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5

#define EMULATED_ATOMIC(name, value_of_both)                                             \
  template <class Pointer, class Value>                                                  \
  EMULATED auto __hip_atomic_##name(Pointer pointer, Value more, int order, int scope) { \
    emulator_runtime->atomic(order, scope);                                              \
    auto&& place = emulator::hip::atomic_place(pointer);                                 \
    return emulator::hip::exchange_value(place, [&](auto old) {                          \
      const decltype(old) value = static_cast<decltype(old)>(more);                      \
      return value_of_both;                                                              \
    });                                                                                  \
  }

namespace emulator::hip {
template <class T, class Change>
EMULATED T exchange_value(T& place, Change change) {
  return std::exchange(place, static_cast<T>(change(place)));
}
template <class T, class Change>
EMULATED T exchange_value(volatile T& place, Change change) {
  const T old = place;
  place = static_cast<T>(change(old));
  return old;
}
template <class T, class Change>
EMULATED T exchange_value(const LdsPlace<T>& place, Change change) {
  const T old = place;
  place = static_cast<T>(change(old));
  return old;
}
}  // namespace emulator::hip

EMULATED_ATOMIC(fetch_add, old + value)
EMULATED_ATOMIC(fetch_sub, old - value)
EMULATED_ATOMIC(fetch_max, old < value ? value : old)
EMULATED_ATOMIC(fetch_min, value < old ? value : old)
EMULATED_ATOMIC(fetch_and, old& value)
EMULATED_ATOMIC(fetch_or, old | value)
EMULATED_ATOMIC(exchange, value)
#undef EMULATED_ATOMIC

/// A load may be one of many that wait for another block.
template <class T>
EMULATED T __hip_atomic_load(const volatile T* pointer, int, int) {
  emulator_runtime->pause();
  return *pointer;
}
template <class T, class Value>
EMULATED void __hip_atomic_store(volatile T* pointer, Value value, int, int) {
  *pointer = static_cast<T>(value);
}
template <class T>
EMULATED bool __hip_atomic_compare_exchange_strong(volatile T* pointer, T* expected, T value, int, int, int) {
  const T old = *pointer;
  if (old == *expected) {
    *pointer = value;
    return true;
  }
  *expected = old;
  return false;
}

#undef EMULATED
