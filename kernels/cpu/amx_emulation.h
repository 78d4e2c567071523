// The tile unit in plain C++, for tests on machines that have none: the same registers and operations.
#pragma once

#include "kernels/cpu/product.h"

namespace regard {

template <bool emulated>
struct BasicTiles;

template <>
struct BasicTiles<true> {
  struct Register {
    u32 element[16][16];
  };
  static inline thread_local Register registers[8];

  static void configure() {}
  static void release() {}

  template <int t>
  static void clear() {
    registers[t] = {};
  }
  template <int t>
  static void load(const float* from, i64 stride) {
    for (int row = 0; row < 16; ++row) __builtin_memcpy(registers[t].element[row], from + row * stride, 64);
  }
  template <int t>
  static void store(float* to, i64 stride) {
    for (int row = 0; row < 16; ++row) __builtin_memcpy(to + row * stride, registers[t].element[row], 64);
  }
  template <int sum, int a, int b>
  static void multiply_add() {
    for (int row = 0; row < 16; ++row) {
      float even[16] = {}, odd[16] = {};  // separate sums, as in the unit
      for (int k = 0; k < 16; ++k) {
        const u32 pair = registers[a].element[row][k];
        for (int column = 0; column < 16; ++column) {
          const u32 other = registers[b].element[k][column];
          even[column] += low(pair) * low(other);
          odd[column] += high(pair) * high(other);
        }
      }
      for (int column = 0; column < 16; ++column) {
        u32& element = registers[sum].element[row][column];
        element = bits_as<u32>(bits_as<float>(element) + (even[column] + odd[column]));
      }
    }
  }

 private:
  static float low(u32 pair) { return bits_as<float>(pair << 16); }
  static float high(u32 pair) { return bits_as<float>(pair & 0xffff0000u); }
};

}  // namespace regard
