// Bank conflicts of the plain kernels in their loops over tiles.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

#include "emulated_hip/kernel.h"
#include "emulated_hip/problem.h"
#include "plan/plan.h"
#include "plan/target.h"
#include "problem/problem.h"

namespace regard::test {
namespace {

/// Enough that no code outside the loop is executed as often.
constexpr int tiles_of_forward = 40, tiles_of_backward = 16;

/// The kernel that is planned for many blocks and long sequences: "portable_forward block_q=128 ...".
std::string kernel_of(const std::string& chip, const std::string& direction, int d) {
  const Problem problem = parse(fmt::format("{} bf16 b=8 h=16 s=4096 d={}", direction, d)).value();
  const Plan planned = plan(problem, **find_target(chip), {}).value();
  for (const Stage& stage : planned.stages)
    if (stage.key.algorithm.kernel == "portable_forward" ||
        stage.key.algorithm.kernel == "portable_backward") {
      const std::string text = print(stage.key);
      const std::size_t begin = text.find(' ') + 1;
      return text.substr(begin, text.find(" |") - begin);
    }
  return "";
}

int number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + words.size());
}

struct Clocks {
  int taken = 0, least = 0;
};

/// The clocks of the instructions that each wave executes at least once for each tile.
Clocks clocks_in_loop(const std::string& report, int waves, int tiles) {
  Clocks clocks;
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    if (number_after(line, "instructions=") < waves * tiles) continue;
    clocks.taken += number_after(line, "clocks=");
    clocks.least += number_after(line, "least=");
  }
  return clocks;
}

struct Cell {
  const char *chip, *direction;
  int d;
  double most;  ///< of the clocks, as a multiple of those without conflicts
  friend std::ostream& operator<<(std::ostream& out, const Cell& cell) {
    return out << cell.chip << " " << cell.direction << " d" << cell.d;
  }
};

class HipConflicts : public testing::TestWithParam<Cell> {};

// ./dev amd-report reads the property.
TEST_P(HipConflicts, InTheLoopOverTiles) {
  const auto& [chip, direction, d, most] = GetParam();
  const std::string kernel = kernel_of(chip, direction, d);
  const bool forward = std::string_view(direction) == "fwd";
  const int tiles = forward ? tiles_of_forward : tiles_of_backward;
  const int rows = number_after(kernel, "block_q=") * (forward ? 1 : tiles),
            keys = number_after(kernel, "block_k=") * (forward ? tiles : 1);
  const Setting counted("EMULATOR_LDS", "1");
  std::string report;
  ASSERT_EQ(mistakes_on(chip, fmt::format("{} bf16 b=1 h=1 sq={} sk={} d={}", direction, rows, keys, d), {},
                        1, kernel, {}, &report),
            "");
  const Clocks clocks = clocks_in_loop(report, number_after(kernel, "warps="), tiles);
  ASSERT_GT(clocks.least, 0) << report;
  const double multiple = static_cast<double>(clocks.taken) / clocks.least;
  RecordProperty("conflicts", fmt::format("{:.3f}", multiple));
  RecordProperty("kernel", kernel);
  EXPECT_LE(multiple, most) << report;
}

constexpr Cell cells[] = {
    {"gfx942", "fwd", 64, 1.0},   {"gfx942", "fwd", 128, 1.0},   {"gfx942", "fwd", 256, 1.0},
    {"gfx942", "bwd", 64, 1.1},   {"gfx942", "bwd", 128, 1.1},   {"gfx942", "bwd", 256, 1.1},
    {"gfx950", "fwd", 64, 1.0},   {"gfx950", "fwd", 128, 1.0},   {"gfx950", "fwd", 256, 1.0},
    {"gfx950", "bwd", 64, 1.15},  {"gfx950", "bwd", 128, 1.15},  {"gfx950", "bwd", 256, 1.15},
    {"gfx1100", "fwd", 64, 1.0},  {"gfx1100", "fwd", 128, 1.0},  {"gfx1100", "fwd", 256, 1.0},
    {"gfx1100", "bwd", 64, 1.04}, {"gfx1100", "bwd", 128, 1.04}, {"gfx1100", "bwd", 256, 1.04},
    {"gfx1201", "fwd", 64, 1.45}, {"gfx1201", "fwd", 128, 1.45}, {"gfx1201", "fwd", 256, 1.45},
    {"gfx1201", "bwd", 64, 1.85}, {"gfx1201", "bwd", 128, 1.85}, {"gfx1201", "bwd", 256, 1.85},
};

INSTANTIATE_TEST_SUITE_P(Kernels, HipConflicts, testing::ValuesIn(cells), [](const auto& info) {
  return fmt::format("{}_{}_d{}", info.param.chip, info.param.direction, info.param.d);
});

}  // namespace
}  // namespace regard::test
