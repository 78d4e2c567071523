// The compiler's vector types: `lanes` 32-bit lanes of the target's width, with one-line wrappers for the
// few instructions that neither g++ nor clang++ generates from plain arithmetic.
#pragma once

#include "kernels/cpu/assembly.h"
#include "kernels/numbers.h"

/// For loops over registers: unrolled at any optimization level, otherwise their arrays would be in memory
/// (and with g++ all but small ones are in memory at -O1, unless REGARD_OPTIMIZE, attributes.h).
#ifdef __clang__
#define REGARD_UNROLL _Pragma("clang loop unroll(full)")
#else
#define REGARD_UNROLL _Pragma("GCC unroll 64")
#endif

namespace regard {

constexpr int lanes = target::vector_bytes / 4;

typedef float Floats __attribute__((vector_size(target::vector_bytes)));
typedef i32 Ints __attribute__((vector_size(target::vector_bytes)));
typedef u32 Words __attribute__((vector_size(target::vector_bytes)));
typedef u64 Doublewords __attribute__((vector_size(target::vector_bytes)));
typedef u16 Numbers16 __attribute__((vector_size(target::vector_bytes)));
typedef u16 Halves __attribute__((vector_size(target::vector_bytes / 2)));  // as many 16-bit lanes

/// Unaligned, and allowed to alias any type.
template <class Vector>
REGARD_INLINE Vector load(const void* from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

template <class Vector>
REGARD_INLINE void store(void* to, Vector vector) {
  __builtin_memcpy(to, &vector, sizeof vector);
}

/// 16-bit numbers as words. For the conversion g++ generates seven instructions, one of them a store.
REGARD_INLINE Words widened(Halves halves) {
  if constexpr (target::avx2) {
    Words words;
    REGARD_X86_ASM("vpmovzxwd %1, %0" : "=v"(words) : "v"(halves));
    return words;
  } else {
    return __builtin_convertvector(halves, Words);
  }
}

/// `widened` of 16-bit numbers in memory. (Sanitizers do not see this read; pages without access do,
/// tests/kernels/guarded_test.cpp.)
REGARD_INLINE Words load_halves(const void* from) {
  if constexpr (target::avx2) {
    typedef u16 Unaligned __attribute__((vector_size(sizeof(Halves)), aligned(1), may_alias));
    Words words;
    REGARD_X86_ASM("vpmovzxwd %1, %0" : "=v"(words) : "m"(*static_cast<const Unaligned*>(from)));
    return words;
  } else {
    return widened(load<Halves>(from));
  }
}

REGARD_INLINE Ints broadcast(i32 value) {
  return Ints{} + value;
}
REGARD_INLINE Words broadcast(u32 value) {
  return Words{} + value;
}
/// By way of integers: it does not matter whether the 32 bits are a float or a pair of bf16.
REGARD_INLINE Floats broadcast(float value) {
  return bits_as<Floats>(broadcast(bits_as<i32>(value)));
}

template <int... number>
struct Numbers {};
template <int count, int... number>
struct NumbersBelow : NumbersBelow<count - 1, count - 1, number...> {};
template <int... number>
struct NumbersBelow<0, number...> {
  using type = Numbers<number...>;
};

template <int... number>
REGARD_INLINE Ints ints_of(Numbers<number...>) {
  return Ints{number...};
}
/// 0, 1, 2, ...
REGARD_INLINE Ints lane_numbers() {
  return ints_of(NumbersBelow<lanes>::type());
}

/// Swaps the off-diagonal squares of `size` in every square of 2 * size at the crossing of the rows a and b.
template <int size, int... lane>
REGARD_INLINE void swap_squares(Floats& a, Floats& b, Numbers<lane...>) {
  const Floats upper = __builtin_shufflevector(a, b, (lane & size ? lanes + lane - size : lane)...);
  b = __builtin_shufflevector(a, b, (lane & size ? lanes + lane : lane + size)...);
  a = upper;
}

/// The lower or the upper halves of a and b, lane by lane in turn.
template <bool upper, int... lane>
REGARD_INLINE Floats lanes_in_turn(Floats a, Floats b, Numbers<lane...>) {
  return __builtin_shufflevector(a, b, (lane / 2 + upper * lanes / 2 + lane % 2 * lanes)...);
}

/// Comparisons of vectors give masks: lanes of -1 and 0.
REGARD_INLINE Floats select(Ints mask, Floats yes, Floats no) {
  return bits_as<Floats>((mask & bits_as<Ints>(yes)) | (~mask & bits_as<Ints>(no)));
}

REGARD_INLINE bool any(Ints mask) {
  if constexpr (target::avx512) {
    u16 found;
    REGARD_X86_ASM("vptestmd %1, %1, %0" : "=Yk"(found) : "v"(mask));
    return found != 0;
  } else if constexpr (target::avx2) {
    bool found;
    REGARD_X86_ASM("vptest %1, %1" : "=@ccnz"(found) : "x"(mask));
    return found;
  } else if constexpr (target::neon) {
    u32 most;
    REGARD_ARM_ASM("umaxv %s0, %1.4s" : "=w"(most) : "w"(mask));
    return most != 0;
  } else {
    i32 found = 0;
    for (int i = 0; i < lanes; ++i) found |= mask[i];
    return found != 0;
  }
}

/// If either is NaN, the result is b or NaN, as the target's instruction has it.
REGARD_INLINE Floats max(Floats a, Floats b) {
  if constexpr (target::avx2) {
    Floats result;
    REGARD_X86_ASM("vmaxps %2, %1, %0" : "=v"(result) : "v"(a), "v"(b));
    return result;
  } else if constexpr (target::neon) {
    Floats result;
    REGARD_ARM_ASM("fmax %0.4s, %1.4s, %2.4s" : "=w"(result) : "w"(a), "w"(b));
    return result;
  } else {
    return select(a > b, a, b);
  }
}

/// If either is NaN, the result is b or NaN, as the target's instruction has it.
REGARD_INLINE Floats min(Floats a, Floats b) {
  if constexpr (target::avx2) {
    Floats result;
    REGARD_X86_ASM("vminps %2, %1, %0" : "=v"(result) : "v"(a), "v"(b));
    return result;
  } else if constexpr (target::neon) {
    Floats result;
    REGARD_ARM_ASM("fmin %0.4s, %1.4s, %2.4s" : "=w"(result) : "w"(a), "w"(b));
    return result;
  } else {
    return select(a < b, a, b);
  }
}

/// x rounded to fp32: keeps the compiler from fusing a product and a following sum into one rounding.
REGARD_INLINE Floats rounded(Floats x) {
  if constexpr (target::fma) {
    Floats result;
    asm("" : REGARD_VECTOR_RESULT(result) : "0"(x));  // with "+", g++ would keep x in memory
    return result;
  } else {
    return x;
  }
}

}  // namespace regard
