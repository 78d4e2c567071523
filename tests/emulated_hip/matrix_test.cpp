// Matrix instructions: where a lane's numbers are, by formulas that are not the emulator's tables.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "emulated_hip/kernel.h"
#include "emulator/numbers.h"

namespace regard {
namespace {

using test::HipKernel;

struct Case {
  const char *chip, *name;
  char element;  ///< h: fp16, b: bf16, f: fp32
  int rows, depth, values, wave;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.chip << " " << c.name; }
};

int depth_of(const Case& c, int group, int i) {
  if (std::string(c.chip) == "gfx1100") return i;
  if (std::string(c.chip) == "gfx1201") return 8 * (i / 4) + 4 * group + i % 4;
  return c.values * group + i;
}
int row_of(const Case& c, int group, int i) {
  if (std::string(c.chip) == "gfx1100") return 2 * i + group;
  if (std::string(c.chip) == "gfx1201") return 8 * group + i;
  return c.rows == 32 ? 8 * (i / 4) + 4 * group + i % 4 : 4 * group + i;
}

/// Small integers, so that sums are exact in any order.
float left_at(int row, int k) {
  return static_cast<float>((3 * row + 5 * k) % 11 - 5);
}
float right_at(int k, int column) {
  return static_cast<float>((7 * column + 2 * k) % 9 - 4);
}

void put(const Case& c, std::vector<std::uint32_t>& words, std::size_t number, float value) {
  if (c.element == 'f') {
    words[number] = std::bit_cast<std::uint32_t>(value);
  } else {
    const std::uint32_t half = emulator::encoded(c.element == 'h' ? REGARD_FP16 : REGARD_BF16, value);
    words[number / 2] |= half << 16 * (number % 2);
  }
}

std::string source_of(const Case& c) {
  const int sums = c.rows * c.rows / c.wave;
  const char* const type = c.element == 'h' ? "_Float16" : c.element == 'b' ? "short" : "float";
  const int bytes = c.element == 'f' ? 4 : 2;
  const std::string operand =
      c.element == 'f'
          ? "typedef float Operand;"
          : fmt::format("typedef {} Operand __attribute__((vector_size({})));", type, bytes * c.values);
  return fmt::format("{} typedef float Sums __attribute__((vector_size({})));\n", operand, 4 * sums) +
         test::kernel_source(
             "const Operand *left, *right; const Sums* addend; Sums* sums;",
             fmt::format("x.sums[thread] = __builtin_amdgcn_{}(x.left[thread], x.right[thread], "
                         "x.addend[thread]{});",
                         c.name, std::string(c.name).starts_with("mfma") ? ", 0, 0, 0" : ""));
}

struct Arguments {
  const void *left, *right, *addend;
  void* sums;
};

class HipMatrix : public testing::TestWithParam<Case> {};

TEST_P(HipMatrix, NumbersAreWhereTheDocumentsSay) {
  const Case& c = GetParam();
  const int sums = c.rows * c.rows / c.wave;
  const auto words = static_cast<std::size_t>(c.wave * c.values);
  std::vector<std::uint32_t> left(words), right(words);
  std::vector<float> result(static_cast<std::size_t>(c.wave * sums) + 16), addend(result.size(), 0.5f);
  for (int lane = 0; lane < c.wave; ++lane) {
    const int line = lane % c.rows, group = lane / c.rows;
    for (int i = 0; i < c.values; ++i) {
      const auto number = static_cast<std::size_t>(lane * c.values + i);
      put(c, left, number, left_at(line, depth_of(c, group, i)));
      put(c, right, number, right_at(depth_of(c, group, i), line));
    }
  }
  const auto aligned = [](std::vector<float>& v) {
    return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(v.data()) + 63) / 64 * 64);
  };
  std::vector<std::uint32_t> left_room(words + 16), right_room(words + 16);
  const auto copied = [](std::vector<std::uint32_t>& room, const std::vector<std::uint32_t>& from) {
    auto* const to =
        reinterpret_cast<std::uint32_t*>((reinterpret_cast<std::uintptr_t>(room.data()) + 63) / 64 * 64);
    std::copy(from.begin(), from.end(), to);
    return to;
  };
  const HipKernel kernel(source_of(c), c.chip);
  ASSERT_EQ(kernel.run({1, static_cast<unsigned>(c.wave), 0},
                       Arguments{copied(left_room, left), copied(right_room, right), aligned(addend),
                                 aligned(result)}),
            "");
  for (int lane = 0; lane < c.wave; ++lane) {
    for (int i = 0; i < sums; ++i) {
      const int row = row_of(c, lane / c.rows, i), column = lane % c.rows;
      float expected = 0.5f;
      for (int k = 0; k < c.depth; ++k) expected += left_at(row, k) * right_at(k, column);
      ASSERT_EQ(aligned(result)[lane * sums + i], expected) << "lane " << lane << ", sum " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HipMatrix,
    testing::Values(Case{"gfx90a", "mfma_f32_32x32x8f16", 'h', 32, 8, 4, 64},
                    Case{"gfx90a", "mfma_f32_32x32x8bf16_1k", 'b', 32, 8, 4, 64},
                    Case{"gfx942", "mfma_f32_32x32x8f16", 'h', 32, 8, 4, 64},
                    Case{"gfx942", "mfma_f32_32x32x8bf16_1k", 'b', 32, 8, 4, 64},
                    Case{"gfx942", "mfma_f32_16x16x16f16", 'h', 16, 16, 4, 64},
                    Case{"gfx942", "mfma_f32_16x16x16bf16_1k", 'b', 16, 16, 4, 64},
                    Case{"gfx942", "mfma_f32_32x32x2f32", 'f', 32, 2, 1, 64},
                    Case{"gfx942", "mfma_f32_16x16x4f32", 'f', 16, 4, 1, 64},
                    Case{"gfx950", "mfma_f32_32x32x16_f16", 'h', 32, 16, 8, 64},
                    Case{"gfx950", "mfma_f32_32x32x16_bf16", 'b', 32, 16, 8, 64},
                    Case{"gfx950", "mfma_f32_16x16x32_f16", 'h', 16, 32, 8, 64},
                    Case{"gfx950", "mfma_f32_16x16x32_bf16", 'b', 16, 32, 8, 64},
                    Case{"gfx1100", "wmma_f32_16x16x16_f16_w32", 'h', 16, 16, 16, 32},
                    Case{"gfx1100", "wmma_f32_16x16x16_bf16_w32", 'b', 16, 16, 16, 32},
                    Case{"gfx1201", "wmma_f32_16x16x16_f16_w32_gfx12", 'h', 16, 16, 8, 32},
                    Case{"gfx1201", "wmma_f32_16x16x16_bf16_w32_gfx12", 'b', 16, 16, 8, 32}));

TEST(HipMatrix, BothHalvesOfAWaveHaveRdna3sOperands) {
  const std::string source =
      "typedef short Operand __attribute__((vector_size(32)));"
      "typedef float Sums __attribute__((vector_size(32)));" +
      test::kernel_source("int spoilt;",
                          "Operand one = {}, other = {}; if (thread == 16) other[3] = x.spoilt;"
                          "Sums sums = {}; sums = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32("
                          "one, other, sums);");
  const HipKernel kernel(source, "gfx1100");
  EXPECT_EQ(kernel.run({1, 32, 0}, 0), "");
  EXPECT_THAT(kernel.run({1, 32, 0}, 1), testing::HasSubstr("lanes 0 and 16 have different right operands"));
}

/// gfx90a reads 16-bit numbers below the normal ones as 0; gfx942 does not.
TEST(HipMatrix, Cdna2HasNoSubnormalOperands) {
  const std::string source =
      "typedef _Float16 Operand __attribute__((vector_size(8)));"
      "typedef float Sums __attribute__((vector_size(64)));" +
      test::kernel_source("float* out;",
                          "Operand small = {}, one = {}; Sums sums = {}; small[0] = 0x1p-20f; one[0] = 1;"
                          "sums = __builtin_amdgcn_mfma_f32_32x32x8f16(small, one, sums, 0, 0, 0);"
                          "x.out[thread] = sums[0];");
  std::vector<float> out(64);
  ASSERT_EQ(HipKernel(source, "gfx942").run({}, out.data()), "");
  EXPECT_THAT(out, testing::Each(0x1p-19f));
  ASSERT_EQ(HipKernel(source, "gfx90a").run({}, out.data()), "");
  EXPECT_THAT(out, testing::Each(0.0f));
}

}  // namespace
}  // namespace regard
