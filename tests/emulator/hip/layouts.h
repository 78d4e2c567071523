// Where the numbers of a matrix instruction are: tables as AMD's ISA documents give them. AMD's matrix
// instruction calculator prints the same ones for CDNA2, CDNA3, RDNA3 and RDNA4; it does not know those that
// CDNA4 added.
#pragma once

#include <array>
#include <cstdint>

namespace emulator::hip {

/// Lane l has row l % rows of the left operand, and that column of the right operand and of the sums. Which
/// of their numbers it has depends on its group, l / rows.
struct Layout {
  int rows;    ///< of the left operand; as many as the right one has columns
  int depth;   ///< of the product
  int values;  ///< of an operand in a lane
  int sums;    ///< in a lane
  /// By group and value: a number's place along the depth, and the row of a sum.
  std::array<std::array<std::uint8_t, 16>, 4> depth_of, row_of;
};

constexpr std::array<std::array<std::uint8_t, 16>, 4> rows_32{{
    {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27},
    {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31},
}};
constexpr std::array<std::array<std::uint8_t, 16>, 4> rows_16{{
    {0, 1, 2, 3},
    {4, 5, 6, 7},
    {8, 9, 10, 11},
    {12, 13, 14, 15},
}};

constexpr Layout mfma_32x32x8{32, 8, 4, 16, {{{0, 1, 2, 3}, {4, 5, 6, 7}}}, rows_32};
constexpr Layout mfma_32x32x16{
    32, 16, 8, 16, {{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}}, rows_32};
constexpr Layout mfma_32x32x2{32, 2, 1, 16, {{{0}, {1}}}, rows_32};
constexpr Layout mfma_16x16x16{
    16, 16, 4, 4, {{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}}, rows_16};
constexpr Layout mfma_16x16x32{16,
                               32,
                               8,
                               4,
                               {{{0, 1, 2, 3, 4, 5, 6, 7},
                                 {8, 9, 10, 11, 12, 13, 14, 15},
                                 {16, 17, 18, 19, 20, 21, 22, 23},
                                 {24, 25, 26, 27, 28, 29, 30, 31}}},
                               rows_16};
constexpr Layout mfma_16x16x4{16, 4, 1, 4, {{{0}, {1}, {2}, {3}}}, rows_16};

/// RDNA3: both halves of the wave have the same operands.
constexpr Layout wmma_rdna3{16,
                            16,
                            16,
                            8,
                            {{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                              {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}},
                            {{{0, 2, 4, 6, 8, 10, 12, 14}, {1, 3, 5, 7, 9, 11, 13, 15}}}};
constexpr Layout wmma_rdna4{16,
                            16,
                            8,
                            8,
                            {{{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}},
                            {{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}}};

}  // namespace emulator::hip
