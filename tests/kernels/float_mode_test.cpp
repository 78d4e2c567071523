// A host that enables floating-point traps: rows without keys have LSE = -inf, and arithmetic with it must
// not trap in the host.
#include <gtest/gtest.h>

#include "kernels/support.h"

#if defined(__x86_64__)
#include <fenv.h>
#include <xmmintrin.h>

namespace regard::test {
namespace {

/// Active during its lifetime, in this thread and those that it starts.
struct Traps {
  Traps() { feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW); }
  ~Traps() { fedisableexcept(FE_ALL_EXCEPT); }
  Traps(const Traps&) = delete;
  Traps& operator=(const Traps&) = delete;
};

/// The result of call(); the mode and the exception flags must stay as they are.
template <class Body>
auto with_mode_kept(const Body& call) {
  const unsigned before = _mm_getcsr();
  auto result = call();
  EXPECT_EQ(_mm_getcsr(), before);
  return result;
}

struct Call {
  std::string problem, family;
};

// Signatures that other tests use, or of built-in kernels.
const std::vector<Call> calls = {
    {"fwd fp32 lse h=2 sq=70 sk=20 d=64 mask=causal", "forward"},
    {"fwd bf16 lse h=2 sq=70 sk=20 d=64 mask=causal sink", "forward"},
    {"fwd fp32 lse h=2 sq=70 sk=0 d=64", "forward"},
    {"fwd bf16 lse b=3 h=2 sq=7 sk=700 d=64 lengths ranges splits=3", "forward_split"},
    {"fwd bf16 lse hq=2 hk=1 sq=2 sk=1 d=64 mask=causal", "decode"},
    {"fwd fp32 lse h=2 sq=70 sk=20 d=8 mask=causal", "generic"},
    {"fwd fp8 lse h=2 sq=70 sk=20 d=8 mask=causal", "generic"},
    {"bwd fp32 h=2 sq=70 sk=20 d=64 mask=causal", "backward"},
    {"bwd bf16 h=2 sq=70 sk=20 d=64 mask=causal sink", "backward"},
    {"bwd fp32 h=2 sq=70 sk=0 d=64", "backward"},
    {"bwd fp32 h=2 sq=70 sk=20 d=8 mask=causal sink bias=11 dbias", "generic"},
};

/// Everything about a call, with the oracle's check, the plan's JSON and the explanation.
void run_all(Case& c, const Path& path) {
  regard_problem* problem = nullptr;
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = path.target.c_str();
  options.family = path.family.c_str();
  options.threads = path.threads;
  char* text = nullptr;
  const std::string words = print(c.problem());
  const auto expect_ok = [&](const auto& call) {
    EXPECT_EQ(with_mode_kept(call), REGARD_OK)
        << c.description() << " " << path.family << " on " << path.target << ": " << regard_status_message();
  };
  expect_ok([&] { return regard_problem_parse(words.c_str(), &problem); });
  expect_ok([&] { return regard_explain(problem, &options, "json", &text); });
  regard_string_free(text);
  expect_ok([&] { return regard_attention(problem, &options, &c.arguments()); });
  expect_ok([&] { return regard_check(problem, &c.arguments(), &text); });
  regard_string_free(text);
  EXPECT_GE(with_mode_kept([&] { return regard_problem_flops(problem); }), 0);
  regard_problem_destroy(problem);
}

TEST(FloatMode, TrapsOfTheHost) {
  if (is_gpu(runnable_targets().front())) GTEST_SKIP() << "kernels of CPUs";
  for (const std::string& target : runnable_targets()) {
    for (const Call& call : calls) {
      for (const int threads : {1, 2}) {
        Case c(call.problem);
        if (c.problem().pass == Pass::bwd) c.compute_forward_inputs();
        {
          const Traps traps;
          run_all(c, {target, call.family, threads});
        }
        if (threads == 1) continue;
        const auto expected = oracle::run(c.problem(), c.arguments());
        ASSERT_TRUE(expected);
        EXPECT_EQ(c.mistakes(*expected), "") << c.description() << " " << call.family << " on " << target;
      }
    }
  }
}

TEST(FloatMode, StaysWhereACallFails) {
  Case c("fwd fp32 h=1 sq=4 sk=2 d=8");
  const Traps traps;
  EXPECT_NE(with_mode_kept([&] { return run(c, {"", "backward"}); }), "");
  c.arguments().tensor[REGARD_Q].rank = 7;
  EXPECT_NE(with_mode_kept([&] { return run(c, {}); }), "");
}

// Its rounding direction does not change any bits.
TEST(FloatMode, RoundingOfTheHost) {
  if (is_gpu(runnable_targets().front())) GTEST_SKIP() << "kernels of CPUs";
  for (const char* text : {"fwd fp32 lse h=2 sq=70 sk=300 d=40", "bwd bf16 h=2 sq=70 sk=300 d=40"}) {
    Case nearest(text), upward(text);
    for (Case* c : {&nearest, &upward})
      if (c->problem().pass == Pass::bwd) c->compute_forward_inputs();
    ASSERT_EQ(run(nearest, {}), "");
    fesetround(FE_UPWARD);
    const std::string failed = with_mode_kept([&] { return run(upward, {}); });
    fesetround(FE_TONEAREST);
    EXPECT_EQ(failed, "");
    for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
      const auto role = static_cast<regard_role>(i);
      if (!is_written(tensor_use(nearest.problem(), role))) continue;
      EXPECT_EQ(nearest.bytes(role), upward.bytes(role)) << text << " " << i;
    }
  }
}

TEST(FloatMode, ProblemsOfTheHost) {
  for (const int direction : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    regard_problem *of_text = nullptr, *of_json = nullptr;
    fesetround(direction);
    const regard_status parsed = regard_problem_parse("fwd fp32 h=2 s=8 d=8 scale=0.1 dropout=0.2", &of_text);
    const regard_status read = regard_problem_from_json(
        R"({"pass": "fwd", "dtype": "fp32", "hq": 2, "hk": 2, "sq": 8, "sk": 8, "d": 8, "dv": 8, "scale": 0.1,
            "dropout": 0.2})",
        &of_json);
    fesetround(FE_TONEAREST);
    ASSERT_EQ(parsed, REGARD_OK) << regard_status_message();
    ASSERT_EQ(read, REGARD_OK) << regard_status_message();
    EXPECT_STREQ(regard_problem_text(of_text), regard_problem_text(of_json));
    EXPECT_THAT(regard_problem_text(of_json), testing::EndsWith("scale=0.1"));
    regard_problem_destroy(of_text);
    regard_problem_destroy(of_json);
  }
}

}  // namespace
}  // namespace regard::test
#endif
