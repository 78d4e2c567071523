// The problems of matrices.h on each kind of AMD GPU, against the oracle.
#include "emulated_hip/matrices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "emulated_hip/problem.h"

namespace regard::test {
namespace {

struct Matrix {
  const char* name;
  std::vector<std::string> (*problems)();
  /// One of so many problems is computed. A prime number, so that each value of the combinations comes up.
  std::size_t step;
};

const Matrix matrices[] = {{"parity", parity_problems, 7},
                           {"forward", forward_smoke_problems, 997},
                           {"backward", backward_smoke_problems, 193}};

class HipMatrices : public testing::TestWithParam<std::tuple<std::string, Matrix>> {};

TEST_P(HipMatrices, AreRight) {
  const auto& [chip, matrix] = GetParam();
  const std::vector<std::string> problems = matrix.problems();
  const bool whole = std::getenv("EMULATED_HIP_WHOLE") != nullptr;
  const std::size_t step = whole ? 1 : matrix.step;
  const std::size_t first = std::hash<std::string>{}(chip) % step;  // each chip computes others
  for (std::size_t i = first; i < problems.size(); i += step)
    EXPECT_EQ(mistakes_on(chip, problems[i]), "") << problems[i] << " on " << chip;
}

INSTANTIATE_TEST_SUITE_P(All, HipMatrices,
                         testing::Combine(testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
                                          testing::ValuesIn(matrices)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace regard::test
