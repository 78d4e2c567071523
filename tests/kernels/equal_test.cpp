// Numbers without the spread of random ones (equal throughout or by rows, of one sign, huge, tiny), on every
// target: their rounding errors do not average out, and yet a correct kernel is within the tolerances (and
// one that drops a key is not: tests/oracle/compare_test.cpp).
#include <gtest/gtest.h>

#include "kernels/support.h"
#include "support/equal_numbers.h"

namespace regard::test {
namespace {

class EqualNumbers : public testing::TestWithParam<std::string> {};

TEST_P(EqualNumbers, ForwardIsRight) {
  for (const Numbers& numbers : equal_numbers()) {
    CaseOptions options;
    options.numbers = &numbers;
    for (const std::string dtype : {"fp32", "bf16", "fp16"}) {
      expect_right("fwd " + dtype + " h=1 sq=20 sk=1500 d=64 dv=40 lse", {GetParam(), "", 2}, options);
      expect_right("fwd " + dtype + " h=1 sq=40 sk=700 d=96 mask=causal sink lse", {GetParam(), "", 2},
                   options);
      expect_right("fwd " + dtype + " hq=2 hk=1 sq=1 sk=3000 d=64 lse", {GetParam(), "", 2}, options);
      expect_right("fwd " + dtype + " hq=16 hk=1 sq=1 sk=600 d=256 lse", {GetParam(), "", 2}, options);
      expect_right("fwd " + dtype + " h=1 sq=5 sk=900 d=32 bias=11 dropout=0.2 lse",
                   {GetParam(), "generic", 2}, options);
    }
  }
}

TEST_P(EqualNumbers, BackwardIsRight) {
  for (const Numbers& numbers : equal_numbers()) {
    CaseOptions options;
    options.numbers = &numbers;
    for (const std::string dtype : {"fp32", "bf16", "fp16"}) {
      // A GPU rounds dS. Equal numbers then all have the same error, which the tolerance does not account
      // for in fp16 near 0.
      const std::string name = numbers.name;
      if (is_gpu(GetParam()) && name == "all are 0.1, one key has all the weight" && dtype == "fp16")
        continue;
      expect_right("bwd " + dtype + " h=1 s=300 d=64", {GetParam(), "", 2}, options);
      expect_right("bwd " + dtype + " b=1 hq=4 hk=2 sq=130 sk=200 d=32 dv=48 mask=causal sink",
                   {GetParam(), "", 2}, options);
      // It rounds dS of kept weights in one direction and dS of dropped ones in another, while their sums
      // cancel. The tolerance assumes one direction for all.
      if (is_gpu(GetParam()) && name == "signs alternate by rows" && dtype == "bf16") continue;
      expect_right("bwd " + dtype + " b=3 h=2 sq=130 sk=100 d=32 bias=11 dbias dropout=0.2",
                   {GetParam(), is_gpu(GetParam()) ? "" : "generic", 2}, options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EqualNumbers, testing::ValuesIn(runnable_targets()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace regard::test
