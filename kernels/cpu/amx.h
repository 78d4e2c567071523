// The tile unit of AMX: eight registers of 16 rows of 16 32-bit elements, and the product of two of them.
//
// Inline assembly is used because compilers neither allocate these registers nor have a constraint for them.
// Every statement is volatile, which keeps them in order.
#pragma once

#include "kernels/cpu/amx_emulation.h"

namespace regard {

template <bool emulated>
struct BasicTiles {
  /// Makes every register a whole tile; the unit belongs to this thread until `release`.
  static void configure() {
    struct alignas(64) {
      u8 palette = 1, start_row = 0, reserved[14] = {};
      u16 row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      u8 rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shapes;
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  static void release() { asm volatile("tilerelease" : : : "memory"); }

  template <int t>
  REGARD_INLINE static void clear() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
  /// Rows are `stride` elements apart.
  template <int t>
  REGARD_INLINE static void load(const float* from, i64 stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride * 4), "i"(t) : "memory");
  }
  template <int t>
  REGARD_INLINE static void store(float* to, i64 stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride * 4), "i"(t) : "memory");
  }
  /// sum[row][column] += over k of a[row][k] * b[k][column], where the elements of a and b are bf16 pairs.
  template <int sum, int a, int b>
  REGARD_INLINE static void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b));
  }
};

using AmxTiles = BasicTiles<target::amx_emulated>;

/// Configures the unit for one block of the grid, in kernels that use it.
template <bool used>
struct TileUnit {};

template <>
struct TileUnit<true> {
  TileUnit() { AmxTiles::configure(); }
  ~TileUnit() { AmxTiles::release(); }
  TileUnit(const TileUnit&) = delete;
  TileUnit& operator=(const TileUnit&) = delete;
};

}  // namespace regard
