// Faults put into a right kernel: each of them must be found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "emulated_hip/attention.h"
#include "emulated_hip/kernel.h"

namespace regard {
namespace {

constexpr int rows = 83, room = 128, columns = 32, seeds = 4;

struct Problem {
  std::vector<_Float16> q, k, v;  ///< after the last row: NaN
};

const Problem& problem() {
  static const Problem made = [] {
    Problem p;
    unsigned state = 1;
    for (std::vector<_Float16>* numbers : {&p.q, &p.k, &p.v}) {
      numbers->assign(room * columns, static_cast<_Float16>(NAN));
      for (int i = 0; i < rows * columns; ++i) {
        state = state * 1664525 + 1013904223;
        (*numbers)[static_cast<std::size_t>(i)] =
            static_cast<_Float16>(static_cast<float>(state >> 16) / 32768 - 1);
      }
    }
    return p;
  }();
  return made;
}

std::vector<float> expected() {
  const Problem& p = problem();
  const auto at = [](const std::vector<_Float16>& all, int row, int column) {
    return static_cast<double>(all[static_cast<std::size_t>(row * columns + column)]);
  };
  std::vector<float> out;
  for (int query = 0; query < rows; ++query) {
    std::vector<double> weights;
    double sum = 0;
    for (int key = 0; key <= query; ++key) {
      double score = 0;
      for (int column = 0; column < columns; ++column) score += at(p.q, query, column) * at(p.k, key, column);
      sum += weights.emplace_back(std::exp2(score));
    }
    for (int column = 0; column < columns; ++column) {
      double value = 0;
      for (int key = 0; key <= query; ++key)
        value += weights[static_cast<std::size_t>(key)] * at(p.v, key, column);
      out.push_back(static_cast<float>(value / sum));
    }
  }
  return out;
}

/// Whether the emulator finds a rule broken or the numbers are wrong, in one of a few orders of events.
bool fails(const std::string& source) {
  static const std::vector<float> right = expected();
  const test::HipKernel kernel(source, "gfx942");
  for (int seed = 1; seed <= seeds; ++seed) {
    const Problem& p = problem();
    std::vector<float> out(room * columns);
    struct {
      const _Float16 *q, *k, *v;
      float* out;
      int rows;
    } arguments{p.q.data(), p.k.data(), p.v.data(), out.data(), rows};
    const std::string error = kernel.run({1, 192, test::small_attention_lds}, arguments, seed);
    if (error.find("error:") != std::string::npos) ADD_FAILURE() << error;  // it does not even compile
    if (!error.empty()) return true;
    for (std::size_t i = 0; i < right.size(); ++i)
      if (!(std::fabs(out[i] - right[i]) < 2e-3f)) return true;
  }
  return false;
}

struct Mutant {
  const char *name, *from, *to;
  friend std::ostream& operator<<(std::ostream& out, const Mutant& m) { return out << m.name; }
};

class HipMutants : public testing::TestWithParam<Mutant> {};

TEST_P(HipMutants, AreFound) {
  const Mutant& m = GetParam();
  EXPECT_TRUE(fails(test::with_change(test::small_attention(), m.from, m.to)));
}

INSTANTIATE_TEST_SUITE_P(
    All, HipMutants,
    testing::Values(Mutant{"no_barrier_behind_the_copies", "__builtin_amdgcn_s_barrier() /* filled */", ""},
                    Mutant{"no_barrier_before_the_next_copies", "__builtin_amdgcn_s_barrier() /* read */",
                           ""},
                    Mutant{"no_wait", "RELEASE __builtin_amdgcn_s_barrier() /* filled */",
                           "__builtin_amdgcn_s_barrier()"},
                    Mutant{"a_wrong_column", "key = first + 8 * (i / 4) + 4 * half",
                           "key = first + 8 * half + 4 * (i / 4 % 2)"},
                    Mutant{"another_order_of_v", "values + 64 * (8 * step + 4 * half + i)",
                           "values + 64 * (8 * step + 2 * i + half)"},
                    Mutant{"a_tail_that_is_not_zeroed", "if (first + i / 32 < x.rows) value", "value"},
                    Mutant{"a_swizzle_on_one_side", "16 * (step ^ row % 4)", "16 * step"},
                    Mutant{"a_maximum_over_too_few_lanes", "top = __builtin_fmaxf(top, of_other);", ""},
                    Mutant{"a_sum_over_too_few_lanes", "sum += __builtin_bit_cast", "__builtin_bit_cast"}),
    [](const auto& mutant) { return std::string(mutant.param.name); });

TEST(HipMutants, TheKernelItselfIsRight) {
  EXPECT_FALSE(fails(test::small_attention()));
}

}  // namespace
}  // namespace regard
