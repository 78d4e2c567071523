// Products of a warpgroup: C[64][n] (+)= A B of 16-bit or 8-bit numbers with fp32 sums, asynchronous.
//
// A thread holds rows `lane / 4` and that plus 8 of its warp's 16, in every group of 8 columns two
// neighbours: c[4 * group + 2 * half + j] is row + 8 * half, column 8 * group + 2 * (lane % 4) + j.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

/// Registers of operands that the compiler moved have arrived; stands before the first product of a group.
REGARD_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Ends a group.
REGARD_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most the last `pending` groups go on.
template <int pending>
REGARD_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// An operand in shared memory, in rows of 128 swizzled bytes. `leading`: from one block of 64 columns to the
/// next, of an operand whose rows are k; other operands ignore it.
REGARD_DEVICE u64 operand(u32 address, u32 leading) {
  constexpr u64 eight_rows = 1024, swizzle_128 = 1;
  return (address & 0x3ffff) >> 4 | static_cast<u64>(leading >> 4) << 16 | eight_rows >> 4 << 32 |
         swizzle_128 << 62;
}

/// The same `bytes` further on: one addition, as nothing carries into the high half.
REGARD_DEVICE u64 moved(u64 operand, u32 bytes) {
  return static_cast<u32>(operand) + (bytes >> 4) | operand >> 32 << 32;
}

/// What an instruction's text says of its operands: 32 bytes of k and their types, in products of two tiles
/// and in those with weights, and behind the operands their signs and which of them stand transposed.
template <DType>
struct Operands {
  static constexpr char tiles[] = "k16.f32.bf16.bf16", weights[] = "k16.f32.bf16.bf16";
  static constexpr char tiles_end[] = "1, 1, 0, 0", weights_end[] = "1, 1, 1";
};
template <>
struct Operands<DType::fp16> {
  static constexpr char tiles[] = "k16.f32.f16.f16", weights[] = "k16.f32.f16.f16";
  static constexpr char tiles_end[] = "1, 1, 0, 0", weights_end[] = "1, 1, 1";
};
// Of 8 bits k is contiguous always. Weights are e4m3.
template <>
struct Operands<DType::fp8> {
  static constexpr char tiles[] = "k32.f32.e4m3.e4m3", weights[] = "k32.f32.e4m3.e4m3";
  static constexpr char tiles_end[] = "1, 1", weights_end[] = "1, 1";
};
template <>
struct Operands<DType::fp8_e5m2> {
  static constexpr char tiles[] = "k32.f32.e5m2.e5m2", weights[] = "k32.f32.e4m3.e5m2";
  static constexpr char tiles_end[] = "1, 1", weights_end[] = "1, 1";
};

template <int n>
struct Wgmma;

// Operands of an instruction of n columns that are sums, n / 2: their numbers in its text, and themselves.
#define REGARD_NUMBERS_32          \
  "%0, %1, %2, %3, %4, %5, %6, %7" \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REGARD_NUMBERS_64                    \
  REGARD_NUMBERS_32                          \
  ", %16, %17, %18, %19, %20, %21, %22, %23" \
  ", %24, %25, %26, %27, %28, %29, %30, %31"
#define REGARD_NUMBERS_80 REGARD_NUMBERS_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define REGARD_NUMBERS_96 REGARD_NUMBERS_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define REGARD_NUMBERS_128                   \
  REGARD_NUMBERS_96                          \
  ", %48, %49, %50, %51, %52, %53, %54, %55" \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define REGARD_NUMBERS_160                   \
  REGARD_NUMBERS_128                         \
  ", %64, %65, %66, %67, %68, %69, %70, %71" \
  ", %72, %73, %74, %75, %76, %77, %78, %79"
#define REGARD_NUMBERS_192                   \
  REGARD_NUMBERS_160                         \
  ", %80, %81, %82, %83, %84, %85, %86, %87" \
  ", %88, %89, %90, %91, %92, %93, %94, %95"
#define REGARD_NUMBERS_224                       \
  REGARD_NUMBERS_192                             \
  ", %96, %97, %98, %99, %100, %101, %102, %103" \
  ", %104, %105, %106, %107, %108, %109, %110, %111"
#define REGARD_NUMBERS_256                           \
  REGARD_NUMBERS_224                                 \
  ", %112, %113, %114, %115, %116, %117, %118, %119" \
  ", %120, %121, %122, %123, %124, %125, %126, %127"
#define REGARD_SUMS(i)                                                                        \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define REGARD_SUMS_32 REGARD_SUMS(0), REGARD_SUMS(8)
#define REGARD_SUMS_64 REGARD_SUMS_32, REGARD_SUMS(16), REGARD_SUMS(24)
#define REGARD_SUMS_80 REGARD_SUMS_64, REGARD_SUMS(32)
#define REGARD_SUMS_96 REGARD_SUMS_80, REGARD_SUMS(40)
#define REGARD_SUMS_128 REGARD_SUMS_96, REGARD_SUMS(48), REGARD_SUMS(56)
#define REGARD_SUMS_160 REGARD_SUMS_128, REGARD_SUMS(64), REGARD_SUMS(72)
#define REGARD_SUMS_192 REGARD_SUMS_160, REGARD_SUMS(80), REGARD_SUMS(88)
#define REGARD_SUMS_224 REGARD_SUMS_192, REGARD_SUMS(96), REGARD_SUMS(104)
#define REGARD_SUMS_256 REGARD_SUMS_224, REGARD_SUMS(112), REGARD_SUMS(120)

// _0 to _6: the numbers behind the sums.
#define REGARD_WGMMA(n, _0, _1, _2, _3, _4, _5, _6)                                                          \
  template <>                                                                                                \
  struct Wgmma<n> {                                                                                          \
    /** A and B in shared memory, k contiguous in both; adds where `add` is not 0. */                        \
    REGARD_DEVICE static void shared(float (&c)[n / 2], u64 a, u64 b, u32 add) {                             \
      asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " _2 ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n _3 \
                   " {" REGARD_NUMBERS_##n "}, " _0 ", " _1 ", p, " _4 ";\n}"                                \
                   : REGARD_SUMS_##n                                                                         \
                   : "l"(a), "l"(b), "r"(add), "C"(Operands<key::dtype>::tiles),                             \
                     "C"(Operands<key::dtype>::tiles_end));                                                  \
    }                                                                                                        \
    /** A in registers; the rows of B are k, or of 8 bits its columns. Always adds. */                       \
    REGARD_DEVICE static void registers(float (&c)[n / 2], const u32 (&a)[4], u64 b) {                       \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #n _5 " {" REGARD_NUMBERS_##n                         \
                   "}, {" _0 ", " _1 ", " _2 ", " _3 "}, " _4 ", 1, " _6 ";"                                 \
                   : REGARD_SUMS_##n                                                                         \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "C"(Operands<key::dtype>::weights), \
                     "C"(Operands<key::dtype>::weights_end));                                                \
    }                                                                                                        \
  }
REGARD_WGMMA(32, "%16", "%17", "%18", "%19", "%20", "%21", "%22");
REGARD_WGMMA(64, "%32", "%33", "%34", "%35", "%36", "%37", "%38");
REGARD_WGMMA(80, "%40", "%41", "%42", "%43", "%44", "%45", "%46");
REGARD_WGMMA(96, "%48", "%49", "%50", "%51", "%52", "%53", "%54");
REGARD_WGMMA(128, "%64", "%65", "%66", "%67", "%68", "%69", "%70");
REGARD_WGMMA(160, "%80", "%81", "%82", "%83", "%84", "%85", "%86");
REGARD_WGMMA(192, "%96", "%97", "%98", "%99", "%100", "%101", "%102");
REGARD_WGMMA(224, "%112", "%113", "%114", "%115", "%116", "%117", "%118");
REGARD_WGMMA(256, "%128", "%129", "%130", "%131", "%132", "%133", "%134");
#undef REGARD_WGMMA
#undef REGARD_SUMS
#undef REGARD_NUMBERS_32
#undef REGARD_SUMS_32
#undef REGARD_NUMBERS_64
#undef REGARD_SUMS_64
#undef REGARD_NUMBERS_80
#undef REGARD_SUMS_80
#undef REGARD_NUMBERS_96
#undef REGARD_SUMS_96
#undef REGARD_NUMBERS_128
#undef REGARD_SUMS_128
#undef REGARD_NUMBERS_160
#undef REGARD_SUMS_160
#undef REGARD_NUMBERS_192
#undef REGARD_SUMS_192
#undef REGARD_NUMBERS_224
#undef REGARD_SUMS_224
#undef REGARD_NUMBERS_256
#undef REGARD_SUMS_256

}  // namespace regard
