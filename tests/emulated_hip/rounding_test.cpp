// AMD's GPUs round results to nearest even, in every type; there is no other mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "base/embedded.h"
#include "compile/render.h"
#include "emulated_hip/kernel.h"
#include "oracle/number.h"

namespace regard::test {
namespace {

constexpr std::string_view rounding = R"(
#include "kernels/machine/number.h"

namespace regard {
struct RoundingArguments {
  const float* from;
  u16 *bf16, *fp16;
  u8 *fp8, *fp8_e5m2;
  int count;
};
}  // namespace regard

REGARD_KERNEL(regard::RoundingArguments, 64) {
  using namespace regard;
  for (int i = __builtin_amdgcn_workitem_id_x(); i < arguments.count; i += 64) {
    const float x = arguments.from[i];
    arguments.bf16[i] = static_cast<u16>(pair<DType::bf16>(0, x) >> 16);
    arguments.fp16[i] = static_cast<u16>(pair<DType::fp16>(x, 0));
    arguments.fp8[i] = fp8_of<DType::fp8>(x);
    arguments.fp8_e5m2[i] = fp8_of<DType::fp8_e5m2>(x);
  }
}
)";

Result<std::string> file(std::string_view path) {
  return path == "kernels/portable/rounding.cu" ? Result<std::string>(std::string(rounding))
                                                : data_file(path);
}

/// Each type's numbers, those half-way between two of them, the neighbours of these, and random ones.
std::vector<float> numbers() {
  std::vector<float> all = {0, -0.0f, NAN, INFINITY, -INFINITY};
  for (const regard_dtype type : {REGARD_BF16, REGARD_FP16, REGARD_FP8, REGARD_FP8_E5M2}) {
    const bool small = type == REGARD_FP8 || type == REGARD_FP8_E5M2;
    for (unsigned bits = 0; bits + 1 < (small ? 0x80u : 0x8000u); bits += small ? 1 : 61) {
      const std::uint16_t both[2] = {static_cast<std::uint16_t>(bits), static_cast<std::uint16_t>(bits + 1)};
      const std::uint8_t both_small[2] = {static_cast<std::uint8_t>(bits),
                                          static_cast<std::uint8_t>(bits + 1)};
      const void* const data = small ? static_cast<const void*>(both_small) : both;
      const double one = oracle::decode(type, data, 0), next = oracle::decode(type, data, 1);
      if (!std::isfinite(one) || !std::isfinite(next)) continue;
      const auto half_way = static_cast<float>((one + next) / 2);
      for (const float x : {static_cast<float>(one), half_way, std::nextafterf(half_way, 0.0f),
                            std::nextafterf(half_way, INFINITY)})
        all.insert(all.end(), {x, -x});
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i)
    all.push_back(std::ldexp(static_cast<float>(random()) / 0x1p32f, static_cast<int>(random() % 60) - 30));
  return all;
}

class HipRounding : public testing::TestWithParam<const char*> {};

TEST_P(HipRounding, IsToNearestEven) {
  const std::vector<float> from = numbers();
  KernelKey key;
  key.algorithm.kernel = "portable_rounding";
  key.algorithm.warps = 1;
  key.target = GetParam();
  const Kernel kernel{.name = "portable_rounding", .depends_on = types_only};
  const Result<Rendered> rendered = render(key, kernel, file);
  ASSERT_TRUE(rendered) << rendered.error().message;
  std::vector<std::uint16_t> bf16(from.size()), fp16(from.size());
  std::vector<std::uint8_t> fp8(from.size()), fp8_e5m2(from.size());
  const struct {
    const float* from;
    std::uint16_t *bf16, *fp16;
    std::uint8_t *fp8, *fp8_e5m2;
    int count;
  } arguments{from.data(), bf16.data(),     fp16.data(),
              fp8.data(),  fp8_e5m2.data(), static_cast<int>(from.size())};
  const HipKernel compiled(rendered->source, GetParam(), "", rendered->symbol.c_str());
  ASSERT_EQ(compiled.run({}, arguments), "");

  const auto expect_rounded = [&](regard_dtype type, const auto& found) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::remove_cvref_t<decltype(found[i])> expected;
      // 8-bit numbers beyond the largest become the largest.
      const double largest = sizeof expected == 1 ? oracle::format(type).largest() : oracle::infinity;
      oracle::encode(type, &expected, 0, std::clamp<double>(from[i], -largest, largest));
      if (std::isnan(from[i]))
        EXPECT_TRUE(std::isnan(oracle::decode(type, &found[i], 0))) << type;
      else
        ASSERT_EQ(found[i], expected) << "type " << type << " of " << std::hexfloat << from[i];
    }
  };
  expect_rounded(REGARD_BF16, bf16);
  expect_rounded(REGARD_FP16, fp16);
  expect_rounded(REGARD_FP8, fp8);
  expect_rounded(REGARD_FP8_E5M2, fp8_e5m2);
}

INSTANTIATE_TEST_SUITE_P(Chips, HipRounding,
                         testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"));

}  // namespace
}  // namespace regard::test
