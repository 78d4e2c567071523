// The probe of ./dev gpu-test on emulated chips: it finds their instructions to be as the tables say, and
// finds a table that was altered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "amd_probe/probe.h"
#include "compile/hip_options.h"
#include "compile/toolchain.h"
#include "emulated_hip/kernel.h"
#include "plan/target.h"

namespace regard {
namespace {

using emulator::hip::Matrix;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string message_of(const Result<std::string>& difference) {
  return difference ? *difference : difference.error().message;
}

class AmdProbe : public testing::TestWithParam<const char*> {
 protected:
  const emulator::hip::Chip& chip = emulator::hip::chip_named(GetParam());
};

TEST_P(AmdProbe, FindsTheInstructionsAsTheTablesSayAndNotAsOthers) {
  gpu::Device device = test::emulated_device(GetParam());
  const std::string code = test::code_of(probe::source_for(chip), GetParam());
  const auto bytes = std::as_bytes(std::span(code));
  const Result<probe::Probe> probe = probe::Probe::load(device, chip, {bytes.begin(), bytes.end()});
  ASSERT_TRUE(probe) << probe.error().message;
  int found = 0;
  for (const Matrix& matrix : emulator::hip::matrices) {
    if (!probe::has(chip, matrix)) continue;
    ++found;
    EXPECT_EQ(message_of(probe->difference(matrix)), "") << matrix.name;
    Matrix other = matrix;
    std::swap(other.layout.row_of[1][0], other.layout.row_of[1][2]);
    EXPECT_THAT(message_of(probe->difference(other)), HasSubstr("by the table it is that of row"))
        << matrix.name;
    other = matrix;
    other.layout.depth_of[0][0] = static_cast<std::uint8_t>(other.layout.depth - 1);
    EXPECT_THAT(message_of(probe->difference(other)), Not(IsEmpty())) << matrix.name;
  }
  EXPECT_GE(found, 2);
  if (!probe::has_transposed_read(chip)) return;
  EXPECT_EQ(message_of(probe->difference(emulator::hip::transposed_read)), "");
  emulator::hip::TransposedTable other = emulator::hip::transposed_read;
  std::swap(other.lane_of[3][0], other.lane_of[3][1]);
  EXPECT_THAT(message_of(probe->difference(other)), HasSubstr("lane 3 has "));
}

TEST_P(AmdProbe, IsCompiledByTheToolchain) {
  const Target& target = **find_target(GetParam());
  const Result<Toolchain*> toolchain = toolchain_for(target);
  if (!toolchain) GTEST_SKIP() << toolchain.error().message;
  CompileRequest request{probe::symbol, probe::source_for(chip), {hip_options.begin(), hip_options.end()}};
  request.options.insert(request.options.end(), target.options.begin(), target.options.end());
  const Result<Compiled> compiled = (*toolchain)->compile(request);
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(compiled->resources->matrix, std::ranges::count_if(emulator::hip::matrices, [&](const Matrix& m) {
              return probe::has(chip, m);
            }));
}

INSTANTIATE_TEST_SUITE_P(Chips, AmdProbe, testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace regard
