// Instructions that move words between lanes, and those of one lane.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "emulated_hip/kernel.h"

namespace regard {
namespace {

using test::HipKernel;

/// Each lane's `value`, a 32-bit number, from this code.
std::vector<unsigned> values(const std::string& chip, const std::string& code) {
  const unsigned lanes = chip.size() == 6 ? 64 : 32;
  std::vector<unsigned> out(lanes);
  const HipKernel kernel(
      test::kernel_source("u32* out;", "u32 value = 0; " + code + " x.out[thread] = value;"), chip);
  EXPECT_EQ(kernel.run({1, lanes, 4096}, out.data()), "");
  return out;
}

/// The same by a formula for each lane.
std::vector<unsigned> lanes(unsigned count, const std::function<unsigned(unsigned)>& of_lane) {
  std::vector<unsigned> all;
  for (unsigned lane = 0; lane < count; ++lane) all.push_back(of_lane(lane));
  return all;
}

TEST(HipLanes, BpermuteTakesAnAddressOfFourBytesALane) {
  EXPECT_EQ(values("gfx942", "value = __builtin_amdgcn_ds_bpermute(4 * (thread ^ 32), 100 + thread);"),
            lanes(64, [](unsigned l) { return 100 + (l ^ 32); }));
  EXPECT_EQ(values("gfx1100", "value = __builtin_amdgcn_ds_bpermute(4 * (thread + 1), 100 + thread);"),
            lanes(32, [](unsigned l) { return 100 + (l + 1) % 32; }));
}

TEST(HipLanes, SwapChangesTheUpperHalfOfOneWithTheLowerOfTheOther) {
  const std::string swap =
      "auto both = __builtin_amdgcn_permlane32_swap(thread, 100 + thread, false, false);";
  EXPECT_EQ(values("gfx950", swap + "value = both[0];"),
            lanes(64, [](unsigned l) { return l < 32 ? l : 100 + l - 32; }));
  EXPECT_EQ(values("gfx950", swap + "value = both[1];"),
            lanes(64, [](unsigned l) { return l < 32 ? l + 32 : 100 + l; }));
}

TEST(HipLanes, Permlanex16TakesFromTheOtherRow) {
  for (const char* chip : {"gfx1100", "gfx1201"}) {
    EXPECT_EQ(
        values(chip, "value = __builtin_amdgcn_permlanex16(0, thread, 0x76543210, 0xfedcba98, true, false);"),
        lanes(32, [](unsigned l) { return l ^ 16; }));
    EXPECT_EQ(
        values(chip, "value = __builtin_amdgcn_permlanex16(0, thread, 0x11111111, 0x22222222, true, false);"),
        lanes(32, [](unsigned l) { return (l < 16 ? 16 : 0) + (l % 16 < 8 ? 1 : 2); }));
  }
}

TEST(HipLanes, BallotsAndFirstLanes) {
  EXPECT_THAT(values("gfx942", "value = __builtin_amdgcn_ballot_w64(thread >= 36) >> 32;"),
              testing::Each(0xfffffff0u));
  EXPECT_THAT(values("gfx1201", "value = __builtin_amdgcn_ballot_w32(thread % 2);"),
              testing::Each(0xaaaaaaaau));
  EXPECT_THAT(values("gfx942", "value = __builtin_amdgcn_readfirstlane(thread + 5);"), testing::Each(5u));
  EXPECT_EQ(values("gfx942", "value = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));"),
            lanes(64, [](unsigned l) { return l; }));
}

/// Four blocks of 4 x 16 numbers, in rows of 32 bytes.
TEST(HipLanes, ATransposedReadGivesALaneAColumnOfFourRows) {
  const std::string read =
      "typedef short Four __attribute__((vector_size(8)));"
      "for (u32 i = thread; i < 256; i += 64) *LdsPointer<short>(2 * i) = i; BARRIER "
      "Four four = __builtin_amdgcn_ds_read_tr16_b64_v4i16(LdsPointer<Four>(thread / 16 * 128 + thread % 16 "
      "/ 4 * 32 "
      "+ thread % 4 * 8));";
  for (unsigned row = 0; row < 4; ++row)
    EXPECT_EQ(values("gfx950", read + fmt::format("value = four[{}];", row)),
              lanes(64, [row](unsigned l) { return l / 16 * 64 + row * 16 + l % 16; }));
}

TEST(HipLanes, BytesAreSelectedAndShifted) {
  const auto one = [](const std::string& expression) {
    return values("gfx942", "value = " + expression + ";")[0];
  };
  EXPECT_EQ(one("__builtin_amdgcn_perm(0x77665544, 0x33221100, 0x07050200)"), 0x77552200u);
  EXPECT_EQ(one("__builtin_amdgcn_perm(0x80000000, 0x00008000, 0x0b0a0908)"), 0xff0000ffu);
  EXPECT_EQ(one("__builtin_amdgcn_perm(0, 0, 0x0d0c0c0c)"), 0xff000000u);
  EXPECT_EQ(one("__builtin_amdgcn_alignbyte(0x77665544, 0x33221100, 1)"), 0x44332211u);
  EXPECT_EQ(one("__builtin_amdgcn_ubfe(0xabcd1234, 8, 12)"), 0xd12u);
  EXPECT_EQ(one("__builtin_amdgcn_fmed3f(3, 1, 2)"), 2u);
}

TEST(HipLanes, ExponentialsKnowNoSubnormalNumbers) {
  const auto one = [](const std::string& expression) {
    return std::bit_cast<float>(values("gfx942", "value = __builtin_bit_cast(u32, " + expression + ");")[0]);
  };
  EXPECT_EQ(one("__builtin_amdgcn_exp2f(-3)"), 0.125f);
  EXPECT_EQ(one("__builtin_amdgcn_exp2f(-126)"), 0x1p-126f);
  EXPECT_EQ(one("__builtin_amdgcn_exp2f(-126.5f)"), 0.0f);
  EXPECT_EQ(one("__builtin_amdgcn_exp2f(-__builtin_inff())"), 0.0f);
  EXPECT_EQ(one("__builtin_amdgcn_logf(8)"), 3.0f);
  EXPECT_EQ(one("__builtin_amdgcn_logf(0x1p-130f)"), -INFINITY);
  EXPECT_EQ(one("__builtin_amdgcn_rcpf(4)"), 0.25f);
}

TEST(HipLanes, AtomicOperationsReturnWhatWasThere) {
  std::vector<unsigned> out(257);
  const HipKernel kernel(
      test::kernel_source(
          "u32* out;",
          "u32 ticket = __hip_atomic_fetch_add(x.out, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);"
          "__hip_atomic_fetch_max(x.out + 1 + ticket, 7u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);"),
      "gfx942");
  ASSERT_EQ(kernel.run({2, 128, 0}, out.data()), "");
  EXPECT_EQ(out[0], 256u);
  out[0] = 7;
  EXPECT_THAT(out, testing::Each(7u));
}

}  // namespace
}  // namespace regard
