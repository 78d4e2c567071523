// Heads and sequences more than 4 GiB apart: no offset fits in 32 bits.
#include <gtest/gtest.h>

#include "kernels/support.h"

namespace regard::test {
namespace {

void expect_right_far(const std::vector<std::string>& texts, const std::string& family) {
  CaseOptions options;
  options.far = true;
  std::vector<Path> paths;
  for (const std::string& target : runnable_targets()) paths.push_back({target, family});
  for (const std::string& text : texts) expect_right_by_each(text, paths, options);
}

TEST(Far, Forward) {
  for (const char* family : {"forward", "generic"})
    expect_right_far({"fwd fp32 lse b=2 hq=4 hk=2 sq=70 sk=131 d=64 bias=bh dropout=0.2 dropout_mask",
                      "fwd bf16 lse b=2 hq=4 hk=2 sq=70 sk=131 d=64 bits mask=causal",
                      "fwd fp16 lse b=2 h=2 sq=70 sk=131 d=40 sink lengths layout=bhsd",
                      "fwd bf16 lse b=2 hq=4 hk=2 s=70 tq=100 tk=131 d=64 varlen"},
                     family);
}

TEST(Far, ForwardInParts) {
  expect_right_far({"fwd bf16 lse b=2 h=2 sq=40 sk=700 d=64 splits=3"}, "forward_split");
}

TEST(Far, Decode) {
  expect_right_far(
      {"fwd bf16 lse b=2 hq=8 hk=2 sq=1 sk=300 d=128", "fwd fp32 lse b=2 hq=4 hk=2 sq=2 sk=300 d=64 bias=bh"},
      "decode");
}

TEST(Far, Backward) {
  for (const char* family : {"backward", "generic"})
    expect_right_far({"bwd fp32 b=2 hq=4 hk=2 sq=70 sk=131 d=64 bias=bh dbias",
                      "bwd bf16 b=2 hq=4 hk=2 sq=70 sk=131 d=64 mask=causal bits"},
                     family);
}

}  // namespace
}  // namespace regard::test
