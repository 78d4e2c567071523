// An fp32 bias with 16-bit inputs: its exact numbers are added to the scores, and its gradient is not
// rounded to 16 bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/support.h"

namespace regard::test {
namespace {

const std::string& target() {
  static const std::string name = runnable_targets().front();
  return name;
}

/// The specialised kernels and, on a CPU, the generic one.
std::vector<std::string> families_with(const std::string& specialised) {
  if (is_gpu(target())) return {specialised};
  return {specialised, "generic"};
}

class Draw {
 public:
  explicit Draw(int seed) : random_(static_cast<std::uint64_t>(seed)) {}

  std::int64_t up_to(std::int64_t most) {
    return 1 + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most));
  }
  template <class T>
  T one_of(const std::vector<T>& list) {
    return list[random_() % list.size()];
  }

  /// The parameters that kernels are compiled for come from a small set, and everything else is random.
  std::string problem(const std::string& words, std::int64_t most_rows) {
    const std::int64_t hk = up_to(3), window = up_to(90);
    const std::string mask =
        one_of<std::string>({"", "mask=causal", "mask=causal_top_left",
                             fmt::format("mask=window:{},{},sink=2", window, window / 3), "ranges"});
    return fmt::format("{} b={} hq={} hk={} sq={} sk={} {} bias={} bias_type=fp32 layout={}{}", words,
                       up_to(3), hk * up_to(3), hk, up_to(most_rows), up_to(300), mask,
                       one_of<std::string>({"11", "1h", "b1", "bh"}),
                       one_of<std::string>({"bshd", "bhsd", "sbhd"}), one_of<std::string>({"", " lengths"}));
  }

  /// 16-bit types cannot represent such numbers, or only roughly represent their differences.
  CaseOptions options() {
    CaseOptions options;
    options.seed = random_() % 1000;
    options.bias_offset = one_of<double>({0, 1000, -1e5, 7e4});
    options.padded_rows = one_of<int>({0, 1}) == 1;
    return options;
  }

 private:
  std::mt19937_64 random_;
};

TEST(BiasType, RandomForwardProblems) {
  Draw draw(1);
  for (int i = 0; i < 40; ++i) {
    const bool few_rows = i % 3 == 0;
    const std::string words = draw.one_of<std::string>({"fwd bf16 lse d=64", "fwd fp16 lse d=64 softcap=2"});
    const std::string family = few_rows ? "" : draw.one_of(families_with("forward"));
    expect_right(draw.problem(words, few_rows ? 2 : 150), {target(), family}, draw.options());
  }
}

TEST(BiasType, RandomBackwardProblems) {
  Draw draw(2);
  for (int i = 0; i < 40; ++i) {
    const std::string words = draw.one_of<std::string>({"bwd bf16 d=32 dbias", "bwd fp16 d=32 dbias"});
    const std::string family = draw.one_of(families_with("backward"));
    expect_right(draw.problem(words, 150), {target(), family}, draw.options());
  }
}

TEST(BiasType, NeighboursThatSixteenBitsDoNotTellApart) {
  struct Pair {
    const char* dtype;
    double first, second, share;  // of the second key
  };
  const double of_one_more = 1 / (1 + std::exp(-1));
  for (const Pair& pair : {Pair{"bf16", 1000, 1001, of_one_more}, Pair{"fp16", -1e5, -1e5 + 1, of_one_more},
                           Pair{"fp16", 7e4, 7e4, 0.5}, Pair{"bf16", -3.4028234e38, -3.4028234e38, 0.5}})
    for (const std::string& family : families_with("forward")) {
      Case c(fmt::format("fwd {} h=1 sq=1 sk=2 d=8 bias=11 bias_type=fp32", pair.dtype));
      for (std::int64_t i = 0; i < 8; ++i) {
        c.set(REGARD_Q, i, 0);
        c.set(REGARD_V, i, 0);
        c.set(REGARD_V, 8 + i, 1);
      }
      c.set(REGARD_BIAS, 0, pair.first);
      c.set(REGARD_BIAS, 1, pair.second);
      ASSERT_EQ(run(c, {target(), family}), "") << c.description();
      EXPECT_NEAR(c.get(REGARD_O, 0), pair.share, 0x1p-8) << c.description() << " " << family;
    }
}

// They match those of the same numbers in fp32, because backward is given the same O and LSE. Rounded to 16
// bits they would be off by 2^-10 and 2^-13.
TEST(BiasType, GradientsAreNotRoundedToSixteenBits) {
  for (const char* bias : {"11", "bh"})
    for (const char* dtype : {"bf16", "fp16"})
      for (const std::string& family : families_with("backward")) {
        const std::string rest = fmt::format("b=2 h=2 sq=70 sk=101 d=32 dbias bias={}", bias);
        Case half(fmt::format("bwd {} {} bias_type=fp32", dtype, rest)), whole("bwd fp32 " + rest);
        for (const regard_role role :
             {REGARD_Q, REGARD_K, REGARD_V, REGARD_O, REGARD_GRAD_O, REGARD_LSE, REGARD_BIAS})
          for (std::int64_t i = 0; i < half.count(role); ++i) whole.set(role, i, half.get(role, i));
        ASSERT_EQ(run(half, {target(), family}), "") << half.description();
        const auto expected = oracle::run(whole.problem(), whole.arguments(), {2, 0, 0});
        ASSERT_TRUE(expected) << expected.error().message;
        const std::vector<double>& exact = expected->at(REGARD_GRAD_BIAS).value;
        double error = 0, all = 0;  // squares
        for (std::int64_t i = 0; i < half.count(REGARD_GRAD_BIAS); ++i) {
          const double value = exact[static_cast<std::size_t>(i)];
          error += std::pow(half.get(REGARD_GRAD_BIAS, i) - value, 2);
          all += value * value;
        }
        EXPECT_LT(std::sqrt(error / all), 0x1p-15) << half.description() << " " << family;
      }
}

}  // namespace
}  // namespace regard::test
