// Forward with 8-bit inputs: on a GPU with its forward kernel, otherwise with the generic one.
#include <gtest/gtest.h>

#include "kernels/support.h"
#include "support/every_code.h"

namespace regard::test {
namespace {

class EightBits : public testing::TestWithParam<std::string> {
 protected:
  Path path() const { return {GetParam(), GetParam().starts_with("cpu") ? "generic" : "forward"}; }
};

TEST_P(EightBits, EveryHeadDimensionAndOutput) {
  for (const char* dims : {"d=16", "d=64", "d=96 dv=112", "d=128", "d=128 dv=64", "d=192 dv=128", "d=256"})
    for (const char* rest : {"", "out=fp16 mask=causal"})
      expect_right(std::string("fwd fp8 lse b=2 hq=4 hk=2 sq=200 sk=333 ") + dims + " " + rest, path());
}

TEST_P(EightBits, EveryMask) {
  for (const char* mask : {"mask=causal", "mask=causal_top_left", "mask=window:20,5", "mask=window:0,0",
                           "mask=window:15,0,sink=3"})
    for (const char* shape : {"s=300", "sq=70 sk=500", "sq=300 sk=70"})
      expect_right(std::string("fwd fp8 lse b=1 h=2 d=128 ") + shape + " " + mask, path());
}

TEST_P(EightBits, FactorsOfTensorsAndHeads) {
  for (const char* descale : {"descale=tensor", "descale=head"})
    for (const char* rest : {"", "mask=causal", "softcap=3", "sink", "varlen tq=300 tk=400", "lengths",
                             "varlen tq=300 tk=400 mask=causal"})
      expect_right(std::string("fwd fp8 lse b=3 hq=4 hk=2 sq=150 sk=260 d=64 ") + descale + " " + rest,
                   path());
}

TEST_P(EightBits, OtherEightBits) {
  for (const char* rest : {"", "mask=causal descale=head", "softcap=3"})
    expect_right(std::string("fwd fp8_e5m2 lse b=2 hq=4 hk=2 s=260 d=128 ") + rest, path());
}

TEST_P(EightBits, SmallWeightsAlone) {
  CaseOptions options;
  options.v_rectified = true;
  for (const char* rest : {"fp8 scale=1", "fp8 scale=3", "fp8_e5m2 scale=1", "fp8 scale=1 mask=causal"})
    expect_right(std::string("fwd lse h=2 s=128 d=64 ") + rest, path(), options);
}

TEST_P(EightBits, TailsAndNoKeys) {
  for (const char* sizes : {"s=1", "sq=1 sk=127", "sq=129 sk=225", "sq=64 sk=0", "sq=64 sk=31"})
    expect_right(std::string("fwd fp8 lse h=2 d=128 ") + sizes, path());
}

TEST_P(EightBits, FewRowsOfManyHeads) {
  for (const char* rest : {"sq=7", "sq=33 mask=causal descale=head"})
    expect_right(std::string("fwd fp8 lse b=2 hq=12 hk=2 sk=300 d=128 ") + rest, path());
}

// Only on a GPU: the generic kernel does not split.
TEST_P(EightBits, PartsOfTheKeys) {
  if (path().family == "generic") GTEST_SKIP();
  for (const char* dims : {"d=64", "d=96 dv=112", "d=128", "d=256"})
    for (const char* rest :
         {"", "mask=causal descale=head sink", "lengths", "mask=window:70,2,sink=3 out=fp16"})
      expect_right(std::string("fwd fp8 lse b=2 hq=4 hk=2 sq=20 sk=1000 splits=3 ") + dims + " " + rest,
                   path());
}

TEST_P(EightBits, ExtremeScores) {
  CaseOptions huge;
  huge.q_scale = 400;
  expect_right("fwd fp8 lse b=1 h=2 sq=70 sk=500 d=128", path(), huge);
  expect_right("fwd fp8 lse b=1 h=2 sq=70 sk=500 d=128 scale=100000000", path(), huge);
}

TEST_P(EightBits, EveryCodeIsExact) {
  for (const std::string dtype : {"fp8", "fp8_e5m2", "fp8_fnuz", "fp8_e5m2_fnuz"}) {
    if (GetParam().starts_with("sm_") && dtype.ends_with("fnuz")) continue;  // not on CUDA
    Case c = every_code(dtype);
    EXPECT_EQ(run(c, path()), "") << dtype;
    EXPECT_EQ(wrong_codes(c, GetParam() == "gfx90a"), "") << dtype;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EightBits, testing::ValuesIn(runnable_targets()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace regard::test
