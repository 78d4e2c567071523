// Weights far below the largest of their row: CPU kernels flush subnormal numbers to 0, and leave the
// caller's mode as it was.
#include <gtest/gtest.h>

#include "kernels/support.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace regard::test {
namespace {

// ALiBi distances cover all magnitudes.
TEST(Flush, WeightsOfEveryMagnitude) {
  for (const std::string& target : runnable_targets())
    for (const char* dtype : {"fp32", "bf16"}) {
      const std::string rest = std::string(dtype) + " h=2 sk=2000 d=40 bias=alibi ";
      expect_right("fwd lse sq=70 " + rest, {target, "forward"});
      if (is_gpu(target)) continue;
      expect_right("fwd lse sq=70 " + rest, {target, "generic"});
      expect_right("fwd lse sq=2 " + rest, {target, "decode"});
      expect_right("bwd sq=70 mask=causal " + rest, {target, "backward"});
      expect_right("bwd sq=70 mask=causal " + rest, {target, "generic"});
    }
}

#if defined(__x86_64__)
/// Two keys with the scores 0 and -83.2, so that the weight of the second is 2^-120, ...
void fill(Case& c) {
  c.set(REGARD_Q, 0, 1);
  c.set(REGARD_K, 0, 0);
  c.set(REGARD_K, 1, -83.2);
}

// ... and its products with 2^-10, which are then 0.
TEST(Flush, ProductsBelowTheSmallestNumber) {
  if (is_gpu(runnable_targets().front())) GTEST_SKIP() << "kernels of CPUs";
  constexpr double factor = 0x1p-10;
  for (const std::string& target : runnable_targets()) {
    for (const char* family : {"forward", "decode", "generic"}) {
      Case c("fwd fp32 h=1 sq=1 sk=2 d=1 scale=1");
      fill(c);
      c.set(REGARD_V, 0, 0);
      c.set(REGARD_V, 1, factor);
      ASSERT_EQ(run(c, {target, family}), "");
      EXPECT_EQ(c.get(REGARD_O, 0), 0) << family << " on " << target;
    }
    for (const char* family : {"backward", "generic"}) {
      Case c("bwd fp32 h=1 sq=1 sk=2 d=1 scale=1");
      fill(c);
      c.compute_forward_inputs();
      c.set(REGARD_GRAD_O, 0, factor);
      ASSERT_EQ(run(c, {target, family}), "");
      EXPECT_NEAR(c.get(REGARD_GRAD_V, 0), factor, factor * 0x1p-20) << family << " on " << target;
      EXPECT_EQ(c.get(REGARD_GRAD_V, 1), 0) << family << " on " << target;
    }
  }
}

TEST(Flush, ModeOfTheThreadStays) {
  constexpr unsigned exceptions = 0x3f;  // that have occurred
  if (is_gpu(runnable_targets().front())) GTEST_SKIP() << "kernels of CPUs";
  const unsigned before = _mm_getcsr();
  struct Call {
    const char *problem, *family;
  };
  for (const unsigned mode : {0x1f80u, 0x1f80u | 0x8000u, 0x1f80u | 0x40u, 0x1f80u | 0x6000u})
    for (const std::string& target : runnable_targets())
      for (const Call& call : {Call{"fwd fp32 h=1 sq=70 sk=300 d=40", "forward"},
                               {"fwd fp32 h=1 sq=1 sk=300 d=40", "decode"},
                               {"bwd fp32 h=1 sq=70 sk=300 d=40", "backward"},
                               {"fwd fp32 h=1 sq=70 sk=300 d=40", "generic"},
                               {"bwd fp32 h=1 sq=70 sk=300 d=40", "generic"}}) {
        Case c(call.problem);
        _mm_setcsr(mode);
        const std::string failed = run(c, {target, call.family, 1});
        const unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        EXPECT_EQ(failed, "");
        EXPECT_EQ(after & ~exceptions, mode) << call.problem << " by " << call.family << " on " << target;
      }
}
#endif

}  // namespace
}  // namespace regard::test
