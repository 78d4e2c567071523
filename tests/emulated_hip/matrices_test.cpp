// The problems of matrices.h on each kind of AMD GPU, against the oracle.
#include "emulated_hip/matrices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "emulated_hip/problem.h"
#include "support/part.h"

namespace regard::test {
namespace {

struct Matrix {
  const char* name;
  std::vector<std::string> (*problems)();
  /// One of so many problems is computed, unless a part is asked for. A prime number, so that each value of
  /// the combinations comes up.
  std::size_t step;
};

const Matrix matrices[] = {{"parity", parity_problems, 7},
                           {"forward", forward_smoke_problems, 997},
                           {"backward", backward_smoke_problems, 193}};

/// As EMULATED_HIP_PART says. Otherwise another one for each chip.
Part part_of(const Matrix& matrix, const std::string& chip) {
  return part_from("EMULATED_HIP_PART")
      .value_or(Part{std::hash<std::string>{}(chip) % matrix.step, matrix.step});
}

/// EMULATED_HIP_ONLY=fp16: only problems that have this in their text.
bool is_asked_for(const std::string& problem) {
  const char* only = std::getenv("EMULATED_HIP_ONLY");
  return only == nullptr || problem.find(only) != std::string::npos;
}

class HipMatrices : public testing::TestWithParam<std::tuple<std::string, Matrix>> {};

TEST_P(HipMatrices, AreRight) {
  const auto& [chip, matrix] = GetParam();
  const std::vector<std::string> problems = matrix.problems();
  const auto [first, step] = part_of(matrix, chip);
  for (std::size_t i = first; i < problems.size(); i += step) {
    if (!is_asked_for(problems[i])) continue;
    EXPECT_EQ(mistakes_on(chip, problems[i]), "") << problems[i] << " on " << chip;
  }
}

INSTANTIATE_TEST_SUITE_P(All, HipMatrices,
                         testing::Combine(testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
                                          testing::ValuesIn(matrices)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace regard::test
