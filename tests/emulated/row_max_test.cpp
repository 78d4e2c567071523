// row_max, the largest score of each row, where forward_test.cpp and decode_test.cpp do not ask for it: of
// latent attention on Hopper, and of rows with NaN.
#include <gtest/gtest.h>

#include "emulated/device.h"
#include "kernels/support.h"

namespace regard::test {
namespace {

TEST(EmulatedRowMax, OfHoppersLatentKernel) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "a kernel of sm_90a";
  CaseOptions steep;  // the number that weights are relative to moves
  steep.q_scale = 5;
  expect_right("fwd bf16 row_max d=576 dv=512 latent b=2 hq=16 hk=1 sq=2 sk=200 paged=64 lengths mask=causal",
               {"sm_90a", "sm90_latent"}, steep);
}

TEST(EmulatedRowMax, IsNaNWhereTheRowIs) {
  if (emulated_target() != "sm_90a") GTEST_SKIP() << "computed once";
  CaseOptions options;
  options.nan_key = 80;
  for (const char* family : {"portable_forward", "sm90_forward"})
    expect_right("fwd bf16 row_max lse h=1 sq=90 sk=90 d=64 mask=causal", {"sm_90a", family}, options);
  for (const char* keys : {"sk=90", "sk=600 splits=2"})
    expect_right(std::string("fwd bf16 row_max lse h=1 sq=1 d=64 ") + keys, {"sm_90a", "portable_decode"},
                 options);
}

}  // namespace
}  // namespace regard::test
