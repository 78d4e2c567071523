// Bank conflicts: of the model, and of a kernel by the lines of its source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "emulated_hip/kernel.h"
#include "emulated_hip/problem.h"
#include "emulator/hip/banks.h"

namespace regard {
namespace {

using emulator::hip::Clocks;
using testing::HasSubstr;

Clocks clocks(const char* chip, unsigned bytes, bool write,
              const std::function<unsigned(unsigned)>& address_of_lane) {
  const emulator::hip::Chip& c = emulator::hip::chip_named(chip);
  std::vector<emulator::hip::LaneAddress> lanes;
  for (unsigned lane = 0; lane < c.wave; ++lane) lanes.push_back({lane, address_of_lane(lane)});
  return clocks_of(c, bytes, write, lanes);
}

/// 16 bytes of 32 rows of 256 bytes, d = 128: the vector that a lane reads is its half of the wave, exclusive
/// or with f(row).
Clocks rows_of_128(const char* chip, const std::function<unsigned(unsigned)>& f) {
  return clocks(chip, 16, false,
                [&f](unsigned lane) { return 256 * (lane % 32) + 16 * (lane / 32 ^ f(lane % 32)); });
}

TEST(HipBanks, ReadsOfRowsAsPublished) {
  const auto none = [](unsigned) { return 0u; };
  const auto row_8 = [](unsigned row) { return row % 8; };
  const auto row_16 = [](unsigned row) { return row % 16; };
  EXPECT_EQ(rows_of_128("gfx942", none).worst, 8u);
  EXPECT_EQ(rows_of_128("gfx942", row_8).worst, 1u);
  EXPECT_EQ(rows_of_128("gfx942", row_16).worst, 1u);
  EXPECT_EQ(rows_of_128("gfx950", none).worst, 16u);
  EXPECT_EQ(rows_of_128("gfx950", row_8).worst, 2u);
  EXPECT_EQ(rows_of_128("gfx950", row_16).worst, 1u);
}

TEST(HipBanks, ClocksAreThoseOfAllPhases) {
  const auto neighbours = [](unsigned bytes) { return [bytes](unsigned lane) { return bytes * lane; }; };
  EXPECT_EQ(clocks("gfx942", 16, false, neighbours(16)).taken, 8u);
  EXPECT_EQ(clocks("gfx942", 8, false, neighbours(8)).taken, 4u);
  EXPECT_EQ(clocks("gfx942", 4, true, neighbours(4)).taken, 2u);
  EXPECT_EQ(clocks("gfx950", 16, false, neighbours(16)).taken, 4u);
  EXPECT_EQ(clocks("gfx950", 4, false, neighbours(4)).taken, 1u);
  EXPECT_EQ(clocks("gfx1201", 16, false, neighbours(16)).taken, 4u);
  EXPECT_EQ(clocks("gfx942", 4, false, [](unsigned) { return 12u; }).worst, 1u);  // one word for all
  EXPECT_EQ(clocks("gfx942", 4, false, neighbours(128)).taken, 64u);
}

TEST(HipBanks, AKernelsConflictsAreCountedByPlace) {
  const test::Setting counted("EMULATOR_LDS", "1");
  const test::HipKernel kernel(test::kernel_source("u32* out;",
                                                   "*LdsPointer<u32>(4 * thread) = thread; BARRIER\n"
                                                   "u32 sum = *LdsPointer<u32>(4 * (thread * 32 % 64));\n"
                                                   "x.out[thread] = sum;"),
                               "gfx942");
  std::vector<unsigned> out(128);
  ASSERT_EQ(kernel.run({1, 128, 512}, out.data()), "");
  EXPECT_THAT(test::lds_report(),
              testing::AllOf(HasSubstr("write 4 instructions=2 clocks=4 least=4 worst=1 at kernel.hip:10\n"),
                             HasSubstr("read 4 instructions=2 clocks=8 least=4 worst=2 at kernel.hip:11\n")));
}

/// Forward's loads of operands by the lines of its source, as the emulator counts them.
std::vector<std::string> operand_loads(const std::string& chip, int d, const test::Change& change = {}) {
  const test::Setting counted("EMULATOR_LDS", "1");
  EXPECT_EQ(test::mistakes_on(chip, "fwd bf16 d=" + std::to_string(d) + " b=1 h=1 sq=32 sk=64", change), "");
  std::istringstream report(test::lds_report());
  std::vector<std::string> loads;
  for (std::string line; std::getline(report, line);)
    if (line.starts_with("read ")) loads.push_back(line);
  return loads;
}

/// The other swizzle is that for 32 banks, and the chip has 64.
TEST(HipBanks, AnotherSwizzleMeetsConflicts) {
  const auto other = [](const std::string& source) {
    return test::with_change(source, "of_four * 4 + row / 4 % 4", "row % 8");
  };
  EXPECT_THAT(operand_loads("gfx950", 128, other),
              testing::IsSupersetOf({testing::ContainsRegex("^read 16 .* worst=2 "),
                                     testing::ContainsRegex("^read 8 .* worst=4 ")}));
}

}  // namespace
}  // namespace regard
