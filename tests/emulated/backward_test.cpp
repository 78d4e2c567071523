// Backward's GPU kernels against the oracle, where there is no GPU. Problems are as small as shows what they
// are about (forward_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>

#include "emulated/device.h"
#include "kernels/support.h"

namespace regard::test {
namespace {

// Partly filled tiles, heads in groups, every kind of mask; sequences of all lengths, or none.
const std::vector<std::string> portable_problems = {
    "bwd fp16 d=64 b=1 h=1 sq=70 sk=150",
    "bwd fp16 d=64 b=2 hq=4 hk=2 s=150 mask=causal",
    "bwd fp16 d=40 b=2 h=2 s=120 dropout=0.2 mask=causal",
    "bwd fp16 d=64 b=3 hq=4 hk=2 s=100 tq=250 tk=250 varlen lengths bias=alibi",
    "bwd fp16 d=128 b=1 h=2 sq=40 sk=100 softcap=3 bias=bh dbias scale=1",
    "bwd fp16 d=64 b=2 h=2 sq=200 sk=3 mask=causal sink",
    "bwd fp16 d=64 b=1 h=1 sq=70 sk=150 mask=window:30,3,sink=5 deterministic",
};
const std::vector<std::string> portable_problems_from_sm_80 = {
    "bwd bf16 d=128 b=1 hq=2 hk=1 s=150",
    "bwd fp32 d=64 b=1 hq=2 hk=1 sq=50 sk=70 mask=causal",
    "bwd bf16 d=64 b=2 h=2 s=150 bits ranges",
    "bwd bf16 d=300 b=1 h=1 s=50 bias=bh dbias",
    "bwd bf16 d=59 dv=17 b=1 h=2 s=130 mask=window:30,3,sink=5 softcap=20 sink",
    "bwd bf16 d=256 b=1 h=1 s=70",
};

TEST(EmulatedBackward, PortableIsRight) {
  expect_all_right(portable_problems, {emulated_target(), "portable_backward"});
  if (emulated_target() != "sm_75")
    expect_all_right(portable_problems_from_sm_80, {emulated_target(), "portable_backward"});
}

}  // namespace
}  // namespace regard::test
