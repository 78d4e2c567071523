// Products of a warpgroup: C[64][n] (+)= A B of 16-bit or 8-bit numbers with fp32 sums, asynchronous.
//
// A thread holds rows `lane / 4` and that plus 8 of its warp's 16, in every group of 8 columns two
// neighbours: c[4 * group + 2 * half + j] is row + 8 * half, column 8 * group + 2 * (lane % 4) + j.
#pragma once

#include "kernels/cuda/warp.h"
#include "kernels/numbers.h"

namespace regard {

/// Ensures that operand registers moved by the compiler have arrived; precedes the first product of a group.
REGARD_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Ends a group.
REGARD_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most the last `pending` groups are still running.
template <int pending>
REGARD_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// The matrix descriptor of an operand in shared memory, in rows of 128 swizzled bytes.
class MatrixDescriptor {
 public:
  /// The high half, the same for all: 1024 bytes from eight rows to the next, and the swizzle.
  static constexpr u32 high = 1024 >> 4 | 1 << 30;

  /// `leading`: the distance from one block of 64 columns to the next, for an operand whose rows are k;
  /// others ignore it.
  REGARD_DEVICE MatrixDescriptor(u32 address, u32 leading)
      : low_((address & 0x3ffff) >> 4 | leading >> 4 << 16) {}

  /// The low half for an address `bytes` further: one addition, as nothing carries.
  REGARD_DEVICE u32 low_at(u32 bytes) const { return low_ + (bytes >> 4); }

 private:
  u32 low_;
};

/// Which operands in shared memory are transposed: their rows are k. 8-bit operands never are.
enum class Transposed { none, b, both };

/// The parts of an instruction's text that depend on the operands' type: 32 bytes of k and their types, in
/// products of two tiles and in those with P in registers and, after the operands of the latter, their signs
/// and whether the right one is transposed.
template <DType>
struct Operands {
  static constexpr char tiles[] = "k16.f32.bf16.bf16", p[] = "k16.f32.bf16.bf16";
  static constexpr char p_end[] = "1, 1, 1";
};
template <>
struct Operands<DType::fp16> {
  static constexpr char tiles[] = "k16.f32.f16.f16", p[] = "k16.f32.f16.f16";
  static constexpr char p_end[] = "1, 1, 1";
};
// 8-bit operands always have a contiguous k. P is e4m3.
template <>
struct Operands<DType::fp8> {
  static constexpr char tiles[] = "k32.f32.e4m3.e4m3", p[] = "k32.f32.e4m3.e4m3";
  static constexpr char p_end[] = "1, 1";
};
template <>
struct Operands<DType::fp8_e5m2> {
  static constexpr char tiles[] = "k32.f32.e5m2.e5m2", p[] = "k32.f32.e4m3.e5m2";
  static constexpr char p_end[] = "1, 1";
};

/// The text after the operands of a product of two tiles.
template <bool of_16_bits, Transposed>
struct TilesEnd;
template <>
struct TilesEnd<false, Transposed::none> {
  static constexpr char signs[] = "1, 1";
};
template <>
struct TilesEnd<true, Transposed::none> {
  static constexpr char signs[] = "1, 1, 0, 0";
};
template <>
struct TilesEnd<true, Transposed::b> {
  static constexpr char signs[] = "1, 1, 0, 1";
};
template <>
struct TilesEnd<true, Transposed::both> {
  static constexpr char signs[] = "1, 1, 1, 1";
};

template <int n>
struct Wgmma;

// The sums of a product of n columns, n / 2 of them: their numbers in an instruction's text, and the
// operands.
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

// An instruction: both operands in shared memory, or A in registers.
#define REGARD_TILES(n, types, a, b, high, add, end)          \
  " mov.b64 a, {" a ", " high "};\n mov.b64 b, {" b ", " high \
  "};\n wgmma.mma_async.sync.aligned.m64n" #n types " {" REGARD_NUMBERS_##n "}, a, b, " add ", " end ";\n"
#define REGARD_P(n, types, a0, a1, a2, a3, b, high, end)                                                \
  " mov.b64 b, {" b ", " high "};\n wgmma.mma_async.sync.aligned.m64n" #n types " {" REGARD_NUMBERS_##n \
      "}, {" a0 ", " a1 ", " a2 ", " a3 "}, b, 1, " end ";\n"
#define REGARD_INPUTS(i) "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[i])

// A statement with some steps of k.
#define REGARD_WGMMA_SHARED(n, steps, add_number, text, ...)                                             \
  template <Transposed transposed>                                                                       \
  REGARD_DEVICE static void shared(Sums& c, const u32(&a)[steps], const u32(&b)[steps], u32 add) {       \
    asm volatile("{\n .reg .pred p;\n .reg .b64 a, b;\n setp.ne.b32 p, " add_number ", 0;\n" text "}"    \
                 : REGARD_SUMS_##n                                                                       \
                 : "C"(Text::tiles), "C"(TilesEnd < bytes_of<config::dtype> == 2, transposed > ::signs), \
                   "r"(MatrixDescriptor::high), "r"(add), __VA_ARGS__);                                  \
  }
#define REGARD_REGISTERS(n, steps, text, ...)                                                 \
  REGARD_DEVICE static void registers(Sums& c, const u32(*a)[4], const u32(&b)[steps]) {      \
    asm volatile("{\n .reg .b64 b;\n" text "}"                                                \
                 : REGARD_SUMS_##n                                                            \
                 : "C"(Text::p), "C"(Text::p_end), "r"(MatrixDescriptor::high), __VA_ARGS__); \
  }

// Few statements with many steps each, because each operand of a statement costs NVVM time. `shared` has A
// and B in shared memory, k contiguous in both, and its first step adds if `add` is not 0. `registers` has A
// in registers; the rows of B are k or, for 8-bit types, its columns are. It always adds. _0 to _27: the
// numbers after the sums.
#define REGARD_WGMMA(n, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, \
                     _19, _20, _21, _22, _23, _24, _25, _26, _27)                                            \
  template <>                                                                                                \
  struct Wgmma<n> {                                                                                          \
    using Sums = float[n / 2];                                                                               \
    using Text = Operands<config::dtype>;                                                                    \
    REGARD_WGMMA_SHARED(n, 1, _3, REGARD_TILES(n, _0, _4, _5, _2, "p", _1), "r"(a[0]), "r"(b[0]))            \
    REGARD_WGMMA_SHARED(n, 4, _3,                                                                            \
                        REGARD_TILES(n, _0, _4, _5, _2, "p", _1) REGARD_TILES(n, _0, _6, _7, _2, "1", _1)    \
                            REGARD_TILES(n, _0, _8, _9, _2, "1", _1)                                         \
                                REGARD_TILES(n, _0, _10, _11, _2, "1", _1),                                  \
                        "r"(a[0]), "r"(b[0]), "r"(a[1]), "r"(b[1]), "r"(a[2]), "r"(b[2]), "r"(a[3]),         \
                        "r"(b[3]))                                                                           \
    REGARD_REGISTERS(n, 1, REGARD_P(n, _0, _3, _4, _5, _6, _7, _2, _1), REGARD_INPUTS(0))                    \
    REGARD_REGISTERS(n, 4,                                                                                   \
                     REGARD_P(n, _0, _3, _4, _5, _6, _7, _2, _1)                                             \
                         REGARD_P(n, _0, _8, _9, _10, _11, _12, _2, _1)                                      \
                             REGARD_P(n, _0, _13, _14, _15, _16, _17, _2, _1)                                \
                                 REGARD_P(n, _0, _18, _19, _20, _21, _22, _2, _1),                           \
                     REGARD_INPUTS(0), REGARD_INPUTS(1), REGARD_INPUTS(2), REGARD_INPUTS(3))                 \
    REGARD_REGISTERS(n, 5,                                                                                   \
                     REGARD_P(n, _0, _3, _4, _5, _6, _7, _2, _1)                                             \
                         REGARD_P(n, _0, _8, _9, _10, _11, _12, _2, _1)                                      \
                             REGARD_P(n, _0, _13, _14, _15, _16, _17, _2, _1)                                \
                                 REGARD_P(n, _0, _18, _19, _20, _21, _22, _2, _1)                            \
                                     REGARD_P(n, _0, _23, _24, _25, _26, _27, _2, _1),                       \
                     REGARD_INPUTS(0), REGARD_INPUTS(1), REGARD_INPUTS(2), REGARD_INPUTS(3),                 \
                     REGARD_INPUTS(4))                                                                       \
  }
REGARD_WGMMA(32, "%16", "%17", "%18", "%19", "%20", "%21", "%22", "%23", "%24", "%25", "%26", "%27", "%28",
             "%29", "%30", "%31", "%32", "%33", "%34", "%35", "%36", "%37", "%38", "%39", "%40", "%41", "%42",
             "%43");
REGARD_WGMMA(64, "%32", "%33", "%34", "%35", "%36", "%37", "%38", "%39", "%40", "%41", "%42", "%43", "%44",
             "%45", "%46", "%47", "%48", "%49", "%50", "%51", "%52", "%53", "%54", "%55", "%56", "%57", "%58",
             "%59");
REGARD_WGMMA(80, "%40", "%41", "%42", "%43", "%44", "%45", "%46", "%47", "%48", "%49", "%50", "%51", "%52",
             "%53", "%54", "%55", "%56", "%57", "%58", "%59", "%60", "%61", "%62", "%63", "%64", "%65", "%66",
             "%67");
REGARD_WGMMA(96, "%48", "%49", "%50", "%51", "%52", "%53", "%54", "%55", "%56", "%57", "%58", "%59", "%60",
             "%61", "%62", "%63", "%64", "%65", "%66", "%67", "%68", "%69", "%70", "%71", "%72", "%73", "%74",
             "%75");
REGARD_WGMMA(128, "%64", "%65", "%66", "%67", "%68", "%69", "%70", "%71", "%72", "%73", "%74", "%75", "%76",
             "%77", "%78", "%79", "%80", "%81", "%82", "%83", "%84", "%85", "%86", "%87", "%88", "%89", "%90",
             "%91");
REGARD_WGMMA(160, "%80", "%81", "%82", "%83", "%84", "%85", "%86", "%87", "%88", "%89", "%90", "%91", "%92",
             "%93", "%94", "%95", "%96", "%97", "%98", "%99", "%100", "%101", "%102", "%103", "%104", "%105",
             "%106", "%107");
REGARD_WGMMA(192, "%96", "%97", "%98", "%99", "%100", "%101", "%102", "%103", "%104", "%105", "%106", "%107",
             "%108", "%109", "%110", "%111", "%112", "%113", "%114", "%115", "%116", "%117", "%118", "%119",
             "%120", "%121", "%122", "%123");
REGARD_WGMMA(224, "%112", "%113", "%114", "%115", "%116", "%117", "%118", "%119", "%120", "%121", "%122",
             "%123", "%124", "%125", "%126", "%127", "%128", "%129", "%130", "%131", "%132", "%133", "%134",
             "%135", "%136", "%137", "%138", "%139");
REGARD_WGMMA(256, "%128", "%129", "%130", "%131", "%132", "%133", "%134", "%135", "%136", "%137", "%138",
             "%139", "%140", "%141", "%142", "%143", "%144", "%145", "%146", "%147", "%148", "%149", "%150",
             "%151", "%152", "%153", "%154", "%155");
#undef REGARD_WGMMA
#undef REGARD_REGISTERS
#undef REGARD_WGMMA_SHARED
#undef REGARD_INPUTS
#undef REGARD_P
#undef REGARD_TILES
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

/// C = A B of tiles, or C += A B if `adds`, in `steps` steps; a_low(i) and b_low(i) are the low halves of a
/// step's descriptors.
template <i32 steps, Transposed transposed = Transposed::none, bool adds = false, i32 n, class A, class B>
REGARD_DEVICE void multiply_tiles(float (&c)[n], const A& a_low, const B& b_low) {
  constexpr i32 in_fours = steps / 4 * 4;
#pragma unroll
  for (i32 i = 0; i < in_fours; i += 4) {
    const u32 a[] = {a_low(i), a_low(i + 1), a_low(i + 2), a_low(i + 3)},
              b[] = {b_low(i), b_low(i + 1), b_low(i + 2), b_low(i + 3)};
    Wgmma<2 * n>::template shared<transposed>(c, a, b, adds || i > 0);
  }
#pragma unroll
  for (i32 i = in_fours; i < steps; ++i) {
    const u32 a[] = {a_low(i)}, b[] = {b_low(i)};
    Wgmma<2 * n>::template shared<transposed>(c, a, b, adds || i > 0);
  }
}

/// C += P B with P in registers, one step for each of its elements.
template <i32 steps, i32 n, class B>
REGARD_DEVICE void multiply_p(float (&c)[n], const u32 (&a)[steps][4], const B& b_low) {
  constexpr i32 together = steps == 5 ? 5 : 4, in_many = steps / together * together;
#pragma unroll
  for (i32 i = 0; i < in_many; i += together) {
    u32 b[together];
#pragma unroll
    for (i32 j = 0; j < together; ++j) b[j] = b_low(i + j);
    Wgmma<2 * n>::registers(c, a + i, b);
  }
#pragma unroll
  for (i32 i = in_many; i < steps; ++i) {
    const u32 b[] = {b_low(i)};
    Wgmma<2 * n>::registers(c, a + i, b);
  }
}

}  // namespace regard
