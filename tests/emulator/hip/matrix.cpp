// Matrix instructions. Products of 16-bit numbers are exact in 32 bits, and are added one after another; the
// order in which a chip adds them is not documented.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "emulator/hip/instructions.h"
#include "emulator/hip/layouts.h"
#include "emulator/numbers.h"

namespace emulator::hip {
namespace {

float half_of(std::uint16_t bits) {
  static const std::vector<float> values = [] {
    std::vector<float> all(1 << 16);
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = decoded(REGARD_FP16, i);
    return all;
  }();
  return values[bits];
}

float number_at(const void* operand, Element element, int i) {
  if (element == Element::fp32) return static_cast<const float*>(operand)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(operand)[i];
  return element == Element::fp16 ? half_of(bits) : decoded(REGARD_BF16, bits);
}

/// CDNA2's matrix unit takes 16-bit numbers below the normal ones as 0.
float as_read(float x, Element element, const Chip& chip) {
  if (chip.family != cdna2 || element == Element::fp32) return x;
  const float least = element == Element::fp16 ? 0x1p-14f : 0x1p-126f;
  return std::fabs(x) < least ? std::copysign(0.0f, x) : x;
}

void check_halves(const Named& builtin, const Lanes& lanes, const Layout& layout) {
  for (unsigned lane = 0; lane < 16; ++lane) {
    const auto &low = lanes.of<Product>(lane), &high = lanes.of<Product>(lane + 16);
    const std::size_t bytes = 2 * static_cast<std::size_t>(layout.values);
    for (const bool left : {true, false})
      if (std::memcmp(left ? low.left : low.right, left ? high.left : high.right, bytes) != 0)
        throw std::runtime_error(fmt::format("{}: lanes {} and {} have different {} operands", builtin.name,
                                             lane, lane + 16, left ? "left" : "right"));
  }
}

void multiply(const Named& builtin, const Lanes& lanes) {
  const Matrix& matrix = *static_cast<const Matrix*>(builtin.table);
  const Layout& l = matrix.layout;
  if (lanes.chip.family == rdna3) check_halves(builtin, lanes, l);
  float left[32][32], right[32][32], sums[32][32];  // of the right operand and the sums: by row
  for (unsigned lane = 0; lane < lanes.chip.wave; ++lane) {
    const auto& given = lanes.of<Product>(lane);
    const auto rows = static_cast<unsigned>(l.rows), group = lane / rows, line = lane % rows;
    for (int i = 0; i < l.values; ++i) {
      const unsigned k = l.depth_of[group][static_cast<unsigned>(i)];
      left[line][k] = as_read(number_at(given.left, matrix.element, i), matrix.element, lanes.chip);
      right[k][line] = as_read(number_at(given.right, matrix.element, i), matrix.element, lanes.chip);
    }
    for (int i = 0; i < l.sums; ++i) sums[l.row_of[group][static_cast<unsigned>(i)]][line] = given.addend[i];
  }
  for (int row = 0; row < l.rows; ++row)
    for (int k = 0; k < l.depth; ++k)
      for (int column = 0; column < l.rows; ++column) sums[row][column] += left[row][k] * right[k][column];
  for (unsigned lane = 0; lane < lanes.chip.wave; ++lane) {
    const auto& given = lanes.of<Product>(lane);
    const auto rows = static_cast<unsigned>(l.rows), group = lane / rows, line = lane % rows;
    for (int i = 0; i < l.sums; ++i) given.sums[i] = sums[l.row_of[group][static_cast<unsigned>(i)]][line];
  }
}

}  // namespace

std::span<const Named> matrix_builtins() {
  static constexpr auto table = [] {
    std::array<Named, std::size(matrices)> named;
    std::ranges::transform(matrices, named.begin(), [](const Matrix& matrix) {
      return Named{matrix.name, matrix.families, multiply, &matrix};
    });
    return named;
  }();
  return table;
}

}  // namespace emulator::hip
