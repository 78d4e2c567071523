// Where the numbers of a matrix instruction are: tables as AMD's ISA documents give them. AMD's matrix
// instruction calculator prints the same ones for CDNA2, CDNA3, RDNA3 and RDNA4; it does not know those that
// CDNA4 added.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "emulator/hip/chips.h"

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

enum class Element { fp16, bf16, fp32 };

struct Matrix {
  std::string_view name;  ///< of the builtin, without "__builtin_amdgcn_"
  unsigned families;
  Layout layout;
  Element element;
};

constexpr Matrix matrices[] = {
    {"mfma_f32_32x32x8f16", cdna, mfma_32x32x8, Element::fp16},
    {"mfma_f32_32x32x8bf16_1k", cdna, mfma_32x32x8, Element::bf16},
    {"mfma_f32_16x16x16f16", cdna, mfma_16x16x16, Element::fp16},
    {"mfma_f32_16x16x16bf16_1k", cdna, mfma_16x16x16, Element::bf16},
    {"mfma_f32_32x32x2f32", cdna, mfma_32x32x2, Element::fp32},
    {"mfma_f32_16x16x4f32", cdna, mfma_16x16x4, Element::fp32},
    {"mfma_f32_32x32x16_f16", cdna4, mfma_32x32x16, Element::fp16},
    {"mfma_f32_32x32x16_bf16", cdna4, mfma_32x32x16, Element::bf16},
    {"mfma_f32_16x16x32_f16", cdna4, mfma_16x16x32, Element::fp16},
    {"mfma_f32_16x16x32_bf16", cdna4, mfma_16x16x32, Element::bf16},
    {"wmma_f32_16x16x16_f16_w32", rdna3, wmma_rdna3, Element::fp16},
    {"wmma_f32_16x16x16_bf16_w32", rdna3, wmma_rdna3, Element::bf16},
    {"wmma_f32_16x16x16_f16_w32_gfx12", rdna4, wmma_rdna4, Element::fp16},
    {"wmma_f32_16x16x16_bf16_w32_gfx12", rdna4, wmma_rdna4, Element::bf16},
};

/// The transposed read works within 16 lanes. Lane s has the address of row s / 4 and of the columns
/// 4 (s % 4) to 4 (s % 4) + 3; lane l gets column l of the four rows.
struct TransposedTable {
  /// By lane and number: whose address it is from, and which of the four numbers there.
  std::array<std::array<std::uint8_t, 4>, 16> lane_of, number_of;
};
constexpr TransposedTable transposed_read = [] {
  TransposedTable table{};
  for (std::uint8_t lane = 0; lane < 16; ++lane) {
    for (std::uint8_t row = 0; row < 4; ++row) {
      table.lane_of[lane][row] = 4 * row + lane / 4;
      table.number_of[lane][row] = lane % 4;
    }
  }
  return table;
}();

}  // namespace emulator::hip
