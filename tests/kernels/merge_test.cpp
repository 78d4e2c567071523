// Partial results, O with its LSE, merged into one, on CPUs.
#include "kernels/support.h"

namespace regard::test {
namespace {

const std::vector<std::string> merges = {
    "merge bf16 lse b=2 h=3 sq=9 d=32 parts=5",
    "merge fp16 b=1 h=2 sq=70 d=40 parts=1 accumulate",
    "merge fp32 lse b=3 h=2 sq=5 d=64 parts=130",
    "merge bf16 out=fp32 lse b=2 h=2 sq=7 d=111 parts=3 accumulate",
    "merge fp32 out=bf16 lse b=2 h=2 sq=7 d=24 parts=2",
    "merge bf16 lse b=3 h=2 sq=20 tq=41 varlen d=64 parts=4",
    "merge fp16 b=3 h=2 sq=20 tq=41 varlen d=64 parts=2 accumulate",
    "merge bf16 lse b=2 h=3 sq=9 d=32 parts=3 layout=bhsd",
};

TEST(Merge, IsRight) {
  expect_all_right(merges, {"", "merge", 2, 1});
  // Kernels differ by their types.
  for (const std::string& target : runnable_targets()) expect_right(merges[0], {target, "merge", 2, 1});
}

TEST(Merge, TakesAnyStridesAndStaysInside) {
  for (const std::string& text : merges) {
    expect_right(text, {"", "merge", 2, 1}, {.padded_rows = true});
    for (const Guarded edge : {Guarded::at_start, Guarded::at_end})
      expect_right(text, {"", "merge", 1, 1}, {.guarded = edge});
  }
}

}  // namespace
}  // namespace regard::test
