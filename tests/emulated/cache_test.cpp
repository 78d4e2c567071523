// The portable forward kernel on KV caches. Every row that no call reads is NaN, and page tables end after
// the last page or hold -1 there.
#include <gtest/gtest.h>

#include "emulated/device.h"
#include "kernels/support.h"

namespace regard::test {
namespace {

Path portable() {
  return {emulated_target(), "portable_forward"};
}

TEST(EmulatedCache, DenseSequences) {
  expect_all_right({"fwd fp16 lse d=64 b=5 hq=4 hk=2 sq=3 sk=100 cache=7 lengths mask=causal",
                    "fwd fp16 lse d=64 b=4 hq=3 hk=1 sq=1 sk=90 cache=3 left_padding",
                    "fwd fp16 lse d=80 b=4 hq=2 hk=2 sq=70 sk=150 lengths left_padding mask=causal"},
                   portable());
}

TEST(EmulatedCache, PagesOfEverySize) {
  for (const char* page : {"1", "3", "7", "16", "48", "64"}) {
    const std::string words = std::string(" lse b=5 sk=70 paged=") + page;
    expect_right("fwd fp16 d=64 hq=3 hk=1 sq=3 lengths mask=causal" + words, portable());
    expect_right("fwd fp16 d=128 hq=8 hk=1 sq=1 table=sglang" + words, portable());
    expect_right("fwd fp16 d=80 hq=2 hk=2 sq=20 lengths left_padding mask=window:30,0,sink=4" + words,
                 portable());
  }
}

}  // namespace
}  // namespace regard::test
