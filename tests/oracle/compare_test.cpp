// Which errors the comparison accepts, and which it must not.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "oracle/check.h"
#include "oracle/number.h"
#include "oracle/oracle.h"
#include "support/case.h"
#include "support/equal_numbers.h"

namespace regard::test {
namespace {

/// Writes the oracle's own answer, rounded, into the outputs.
oracle::Outputs answer(Case& c) {
  const oracle::Outputs outputs = oracle::run(c.problem(), c.arguments(), {2, 0, 0}).value();
  for (const auto& [role, output] : outputs)
    for (std::size_t i = 0; i < output.value.size(); ++i)
      if (output.has_result(i)) c.set(role, static_cast<std::int64_t>(i), output.value[i]);
  return outputs;
}

TEST(Compare, AcceptsTheRoundedAnswerOfEveryOutput) {
  for (const char* text :
       {"fwd fp32 b=2 h=2 s=40 d=16 lse mask=causal", "fwd bf16 b=1 h=2 sq=30 sk=20 d=8 lse mask=causal",
        "fwd fp16 b=1 h=2 s=20 d=8 dropout=0.2 dropout_mask", "fwd fp8 b=1 h=2 s=20 d=8 out=fp8 lse",
        "fwd bf16 b=3 h=2 s=20 d=8 varlen lengths lse", "bwd bf16 b=2 h=2 s=40 d=16 bias=1h dbias sink",
        "bwd fp32 b=3 h=2 s=20 d=8 varlen lengths"}) {
    CaseOptions options;
    options.padded_rows = true;
    Case c(text, options);
    const oracle::Outputs expected = answer(c);
    EXPECT_EQ(c.mistakes(expected), "") << c.description();
    for (const oracle::Comparison& result : oracle::compare(c.problem(), c.arguments(), expected))
      EXPECT_GT(result.compared, 0) << role_name(result.role);
  }
}

TEST(Compare, MissesNoUnwrittenElement) {
  Case c("fwd bf16 b=1 h=1 s=8 d=4 lse");
  const oracle::Outputs expected = answer(c);
  c.poison_outputs();
  const auto results = oracle::compare(c.problem(), c.arguments(), expected);
  EXPECT_EQ(results.at(0).wrong, 32);
  EXPECT_EQ(results.at(1).wrong, 8);
}

TEST(Compare, AHiddenInfiniteKeyHasNoTolerance) {
  Case c("fwd fp32 b=1 h=1 s=2 d=4 mask=causal lse");
  c.set(REGARD_K, 5, oracle::infinity);
  const oracle::Outputs expected = answer(c);
  for (const oracle::Comparison& result : oracle::compare(c.problem(), c.arguments(), expected)) {
    EXPECT_TRUE(std::isfinite(result.tolerance)) << role_name(result.role);
    EXPECT_LE(result.worst, 1) << role_name(result.role);
  }
  c.set(REGARD_O, 0, c.get(REGARD_O, 0) * 1.01);
  EXPECT_NE(c.mistakes(expected), "");
}

TEST(Compare, MinusInfinityMustBeExact) {
  Case c("fwd fp32 b=1 h=1 sq=3 sk=2 d=4 mask=causal lse");
  const oracle::Outputs expected = answer(c);
  ASSERT_EQ(c.get(REGARD_LSE, 0), -oracle::infinity);
  for (const double wrong : {-1e30, oracle::infinity, 0.0}) {
    c.set(REGARD_LSE, 0, wrong);
    EXPECT_NE(c.mistakes(expected), "") << wrong;
  }
  c.set(REGARD_LSE, 0, -oracle::infinity);
  c.set(REGARD_LSE, 1, -oracle::infinity);
  EXPECT_NE(c.mistakes(expected), "");
}

TEST(Compare, NaNOfTheInputsMustShow) {
  for (const char* text :
       {"fwd fp32 b=1 h=1 sq=3 sk=4 d=4 lengths lse", "bwd bf16 b=1 h=1 sq=3 sk=4 d=4 lengths"}) {
    Case c(text);
    c.set(REGARD_LENGTHS_Q, 0, 2);
    c.set(REGARD_LENGTHS_K, 0, 4);
    c.set(REGARD_Q, 4, oracle::nan);  // the second row
    const oracle::Outputs expected = answer(c);
    EXPECT_EQ(c.mistakes(expected), "");
    const regard_role role = c.problem().pass == Pass::fwd ? REGARD_O : REGARD_GRAD_Q;
    c.set(role, 5, 0.5);
    const oracle::Comparison result = oracle::compare(c.problem(), c.arguments(), expected).at(0);
    EXPECT_EQ(result.role, role);
    EXPECT_EQ(result.compared, 8) << "the third row is past the logical length";
    EXPECT_EQ(result.wrong, 1);
    EXPECT_EQ(result.first_wrong, 5);
  }
}

TEST(Compare, SeesOneKeyTooFew) {
  // The last key of a long row has little weight; dropping it must not be hidden by the rounding of bf16.
  for (const char* text : {"fwd bf16 b=1 h=1 sq=8 sk=256 d=32", "fwd fp16 b=1 h=1 sq=8 sk=512 d=32",
                           "fwd fp32 b=1 h=1 sq=8 sk=4096 d=32", "bwd bf16 b=1 h=1 sq=16 sk=128 d=32"}) {
    Case whole(text);
    answer(whole);
    Problem shorter = whole.problem();
    shorter.sk -= 1;
    regard_arguments arguments = whole.arguments();
    for (const regard_role role : {REGARD_K, REGARD_V, REGARD_GRAD_K, REGARD_GRAD_V})
      if (arguments.tensor[role].data) arguments.tensor[role].shape[1] -= 1;
    const auto expected = oracle::run(shorter, arguments).value();
    EXPECT_GT(oracle::compare(shorter, arguments, expected).at(0).wrong, 0) << text;
  }
}

/// The outputs that are wrong if a kernel forgets the last row of some tensors: it gives the answer of the
/// whole problem where that of a shorter one is right, or the other way round.
std::set<std::string> wrong_by_one(const std::string& text, const Numbers& numbers,
                                   std::int64_t Problem::* size, std::initializer_list<regard_role> roles) {
  CaseOptions options;
  options.numbers = &numbers;
  Case whole(text, options);
  answer(whole);
  Problem shorter = whole.problem();
  shorter.*size -= 1;
  regard_arguments arguments = whole.arguments();
  for (const regard_role role : roles) {
    regard_tensor& tensor = arguments.tensor[role];
    if (tensor.data) tensor.shape[role == REGARD_LSE ? 2 : 1] -= 1;
  }
  std::set<std::string> wrong;
  const auto expected = oracle::run(shorter, arguments).value();
  for (const oracle::Comparison& result : oracle::compare(shorter, arguments, expected))
    if (result.wrong > 0) wrong.emplace(role_name(result.role));
  return wrong;
}

TEST(Compare, SeesOneKeyTooFewAmongNumbersThatAreAlike) {
  // If the weight of a key is 0 or lost in the rounding of scores, the error cannot be seen.
  for (const Numbers& numbers : equal_numbers())
    for (const std::string dtype :
         {"fp32 h=1 sq=3 sk=2048", "bf16 h=1 sq=3 sk=2048", "fp16 h=1 sq=3 sk=2048"}) {
      const auto wrong =
          wrong_by_one("fwd " + dtype + " d=32 lse", numbers, &Problem::sk, {REGARD_K, REGARD_V});
      const std::string name = numbers.name;
      const bool unseen = name == "scores are huge" ||
                          (name == "all are 0.1, one key has all the weight" && !dtype.starts_with("fp32"));
      EXPECT_EQ(wrong.empty(), unseen) << name << ", " << dtype;
    }
}

TEST(Compare, SeesOneQueryTooFewAmongNumbersThatAreAlike) {
  for (const Numbers& numbers : equal_numbers())
    for (const std::string dtype :
         {"fp32 h=1 sq=1024 sk=20", "bf16 h=1 sq=64 sk=20", "fp16 h=1 sq=512 sk=20"}) {
      const auto wrong = wrong_by_one("bwd " + dtype + " d=32 sink", numbers, &Problem::sq,
                                      {REGARD_Q, REGARD_O, REGARD_LSE, REGARD_GRAD_O, REGARD_GRAD_Q});
      // Weights of huge scores are rounded by more than a query's contribution; subnormal sums may be 0,
      // except in fp16.
      const std::string name = numbers.name;
      const bool unseen =
          name == "scores are huge" || (name.ends_with("are tiny") && !dtype.starts_with("fp16"));
      EXPECT_EQ(wrong.contains("grad_v"), !unseen) << numbers.name << ", " << dtype;
      const bool sink = !name.ends_with("are small") && name != "all are 0.1, one key has all the weight";
      if (dtype.starts_with("fp32") && !unseen && sink) {
        EXPECT_TRUE(wrong.contains("grad_sink")) << numbers.name;
      }
    }
}

/// The largest error of an output as a fraction of its tolerance.
double worst(const Case& c, const oracle::Outputs& expected, regard_role role) {
  for (const oracle::Comparison& result : oracle::compare(c.problem(), c.arguments(), expected))
    if (result.role == role) return result.worst;
  return oracle::nan;
}

void multiply(Case& c, regard_role role, double factor) {
  for (std::int64_t i = 0; i < c.count(role); ++i) c.set(role, i, factor * c.get(role, i));
}

/// K, V and dO become random numbers around 1: O, D and dP are then far from 0, but dP - D and its results
/// are not.
void lift(Case& c) {
  for (const regard_role role : {REGARD_K, REGARD_V, REGARD_GRAD_O})
    if (c.arguments().tensor[role].data)
      for (std::int64_t i = 0; i < c.count(role); ++i) c.set(role, i, 1 + c.get(role, i));
}

TEST(Compare, SeesAnLseThatIsOffByLittle) {
  for (const bool lifted : {false, true}) {
    Case c("fwd fp32 h=1 sq=4 sk=4096 d=64 lse");
    if (lifted) lift(c);
    const oracle::Outputs expected = answer(c);
    for (std::int64_t i = 0; i < c.count(REGARD_LSE); ++i) c.set(REGARD_LSE, i, c.get(REGARD_LSE, i) + 1e-4);
    EXPECT_GT(worst(c, expected, REGARD_LSE), 1) << lifted;
  }
}

TEST(Compare, SeesGradientsThatAreOffByLittleAmongLargeD) {
  for (const std::string sizes : {"sq=8 sk=4096", "sq=4 sk=16384"}) {
    Case c("bwd fp32 h=1 d=64 " + sizes);
    lift(c);
    c.compute_forward_inputs();
    const oracle::Outputs expected = answer(c);
    for (const regard_role role : {REGARD_GRAD_Q, REGARD_GRAD_K, REGARD_GRAD_V}) {
      EXPECT_LT(worst(c, expected, role), 0.5) << sizes;
      multiply(c, role, 1.01);
      EXPECT_GT(worst(c, expected, role), 2) << role_name(role) << " of " << sizes;
    }

    // The answer with a score scale that is wrong by a thousandth.
    Problem scaled = c.problem();
    scaled.scale = 1.001 / 8;
    const oracle::Outputs off = oracle::run(scaled, c.arguments(), {2, 0, 0}).value();
    for (std::int64_t i = 0; i < c.count(REGARD_GRAD_Q); ++i)
      c.set(REGARD_GRAD_Q, i, off.at(REGARD_GRAD_Q).value[static_cast<std::size_t>(i)]);
    EXPECT_GT(worst(c, expected, REGARD_GRAD_Q), 1) << sizes;
  }
}

TEST(Compare, SeesOneKeyTooFewAmongLargeD) {
  for (const std::string sizes : {"sq=8 sk=4096", "sq=4 sk=16384"}) {
    Case c("bwd fp32 h=1 d=64 " + sizes);
    lift(c);
    c.compute_forward_inputs();
    const oracle::Outputs expected = answer(c);
    const Problem& p = c.problem();
    // dQ without the contribution of the last key: scale P (dP - D) K.
    for (std::int64_t i = 0; i < p.sq; ++i) {
      double score = 0, d_p = 0, d = 0;
      for (std::int64_t x = 0; x < p.d; ++x) {
        const std::int64_t row = i * p.d + x, key = (p.sk - 1) * p.d + x;
        score += c.get(REGARD_Q, row) * c.get(REGARD_K, key) / 8;
        d_p += c.get(REGARD_GRAD_O, row) * c.get(REGARD_V, key);
        d += c.get(REGARD_GRAD_O, row) * c.get(REGARD_O, row);
      }
      const double d_s = std::exp(score - c.get(REGARD_LSE, i)) * (d_p - d);
      for (std::int64_t x = 0; x < p.d; ++x)
        c.set(REGARD_GRAD_Q, i * p.d + x,
              c.get(REGARD_GRAD_Q, i * p.d + x) - d_s / 8 * c.get(REGARD_K, (p.sk - 1) * p.d + x));
    }
    EXPECT_GT(worst(c, expected, REGARD_GRAD_Q), 1) << sizes;
  }
}

TEST(Compare, SeesAnotherDThanThatOfTheOThatIsRead) {
  Case c("bwd bf16 h=1 sq=16 sk=512 d=64");
  lift(c);
  c.compute_forward_inputs();
  const oracle::Outputs expected = answer(c);
  EXPECT_EQ(c.mistakes(expected), "");
  multiply(c, REGARD_O, 0.95);
  answer(c);
  for (const regard_role role : {REGARD_GRAD_Q, REGARD_GRAD_K})
    EXPECT_GT(worst(c, expected, role), 2) << role_name(role);
}

TEST(Compare, SeesWritesPastALogicalLength) {
  Case c("fwd fp32 b=1 h=1 s=8 d=4 lengths");
  c.set(REGARD_LENGTHS_Q, 0, 5);
  const oracle::Outputs expected = answer(c);
  EXPECT_EQ(c.mistakes(expected), "");
  c.set(REGARD_O, 6 * 4, 0);
  EXPECT_NE(c.mistakes(expected).find("past a logical length"), std::string::npos);
}

TEST(Compare, SeesWritesBetweenRows) {
  CaseOptions options;
  options.padded_rows = true;
  Case c("fwd fp32 b=1 h=1 s=8 d=4", options);
  const oracle::Outputs expected = answer(c);
  static_cast<float*>(c.arguments().tensor[REGARD_O].data)[4] = 0;
  EXPECT_NE(c.mistakes(expected).find("outside of the tensor"), std::string::npos);
}

TEST(Compare, EqualElementsHaveARelativeErrorToo) {
  // Their root mean square is rounded, and must not be greater than all of them.
  for (const double number : {0.1, 0.3, 0.7, 1.1}) {
    Case c("fwd fp32 b=1 h=1 s=50 d=7");
    oracle::Outputs expected = answer(c);
    for (std::size_t i = 0; i < expected.at(REGARD_O).value.size(); ++i) {
      expected.at(REGARD_O).value[i] = number;
      c.set(REGARD_O, static_cast<std::int64_t>(i), number * 1.25);
    }
    const oracle::Comparison result = oracle::compare(c.problem(), c.arguments(), expected).at(0);
    EXPECT_NEAR(result.max_relative, 0.25, 1e-6) << number;
  }
}

TEST(Compare, OverflowOfTheOutputTypeIsItsInfinity) {
  Case c("fwd fp16 b=1 h=1 s=4 d=4");
  oracle::Outputs expected = answer(c);
  expected.at(REGARD_O).value[0] = 1e6;
  c.set(REGARD_O, 0, oracle::infinity);
  EXPECT_EQ(c.mistakes(expected), "");
  c.set(REGARD_O, 0, -oracle::infinity);
  EXPECT_NE(c.mistakes(expected), "");
}

TEST(CheckReport, NothingToComputeIsCheckedAtOnce) {
  for (const char* text : {"fwd fp32 h=1000000000 sq=0 sk=0 d=64 lse", "fwd fp32 b=1000000000 sq=0 sk=0 d=64",
                           "bwd bf16 h=1000000000 sq=0 sk=0 d=64",
                           "bwd fp32 b=1000000000 hq=8 hk=2 sq=0 sk=0 d=64 bias=bh dbias",
                           "fwd fp32 b=100000 h=100000 sq=0 sk=0 d=64 dropout=0.1 dropout_mask",
                           "fwd fp32 b=300000 h=300000 sq=0 sk=0 d=64 lengths",
                           "bwd fp32 b=300000 h=300000 sq=0 sk=0 d=64 varlen"}) {
    const Problem problem = parse(text).value();
    ASSERT_TRUE(validate(problem));
    regard_arguments arguments = REGARD_ARGUMENTS_INIT;
    std::vector<std::int32_t> zeros(
        static_cast<std::size_t>(problem.lengths || problem.varlen ? problem.b + 1 : 1), 0);
    for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
      const TensorSpec spec = tensor_spec(problem, static_cast<regard_role>(role));
      if (spec.use == REGARD_UNUSED || role == REGARD_SEED) continue;
      regard_tensor& tensor = arguments.tensor[role];
      tensor.data = zeros.data();
      tensor.dtype = spec.dtype;
      tensor.rank = static_cast<std::int32_t>(spec.shape.size());
      for (std::size_t i = 0; i < spec.shape.size(); ++i) {
        tensor.shape[i] = spec.shape[i];
        tensor.strides[i] = spec.strides[i];
      }
    }
    const auto start = std::chrono::steady_clock::now();
    const auto report = oracle::check_report(problem, arguments, 2);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2)) << text;
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(nlohmann::json::parse(*report)["ok"]) << text;
  }
}

TEST(CheckReport, SaysWhatIsWrong) {
  Case c("fwd bf16 b=1 h=2 s=16 d=8 lse");
  answer(c);
  auto report = nlohmann::json::parse(oracle::check_report(c.problem(), c.arguments(), 2).value());
  EXPECT_TRUE(report["ok"]);
  EXPECT_FALSE(report["sampled"]);
  EXPECT_EQ(report["outputs"]["o"]["compared"], 256);
  c.set(REGARD_O, 3, 100);
  c.set(REGARD_LSE, 0, oracle::nan);
  report = nlohmann::json::parse(oracle::check_report(c.problem(), c.arguments(), 2).value());
  EXPECT_FALSE(report["ok"]);
  EXPECT_EQ(report["outputs"]["o"]["wrong"], 1);
  EXPECT_FALSE(report["outputs"]["lse"]["ok"]);
}

TEST(CheckReport, SamplesWhatIsLarge) {
  // Nothing is computed here: the poisoned outputs are all wrong, wherever the check looks.
  Case forward("fwd fp32 b=1 h=2 s=32768 d=8 lse");
  auto report =
      nlohmann::json::parse(oracle::check_report(forward.problem(), forward.arguments(), 2).value());
  EXPECT_TRUE(report["sampled"]);
  EXPECT_FALSE(report["ok"]);
  EXPECT_GT(report["outputs"]["lse"]["compared"], 100);
  EXPECT_LT(report["outputs"]["lse"]["compared"], 2 * 32768);
}

TEST(CheckReport, SampledGradientsAreThoseOfTheWhole) {
  Case c("bwd fp32 b=2 hq=4 hk=2 s=20 d=8 sink");
  const auto whole = oracle::run(c.problem(), c.arguments()).value();
  const auto heads = oracle::run(c.problem(), c.arguments(), {1, 0, 2}).value();
  const auto rows = oracle::run(c.problem(), c.arguments(), {1, 7, 1}).value();
  EXPECT_EQ(heads.count(REGARD_GRAD_SINK), 0u);
  EXPECT_EQ(rows.count(REGARD_GRAD_K), 0u);
  for (const auto* some : {&heads, &rows}) {
    for (const auto& [role, output] : *some) {
      std::size_t computed = 0;
      for (std::size_t i = 0; i < output.value.size(); ++i) {
        if (!output.has_result(i)) continue;
        EXPECT_EQ(output.value[i], whole.at(role).value[i]);
        ++computed;
      }
      EXPECT_GT(computed, 0u);
      EXPECT_LT(computed, output.value.size());
    }
  }
}

TEST(CheckReport, SamplesHeadsThatHaveQueriesAndKeys) {
  Case c("bwd fp32 b=3 hq=2 hk=1 s=20 d=8 lengths");
  c.set(REGARD_LENGTHS_Q, 0, 20);
  c.set(REGARD_LENGTHS_Q, 1, 20);
  c.set(REGARD_LENGTHS_Q, 2, 0);
  c.set(REGARD_LENGTHS_K, 0, 20);
  c.set(REGARD_LENGTHS_K, 1, 0);
  c.set(REGARD_LENGTHS_K, 2, 20);
  const auto one = oracle::run(c.problem(), c.arguments(), {1, 0, 1}).value();
  EXPECT_TRUE(one.at(REGARD_GRAD_Q).has_result(0));
  EXPECT_FALSE(one.at(REGARD_GRAD_Q).has_result(one.at(REGARD_GRAD_Q).value.size() - 1));
}

}  // namespace
}  // namespace regard::test
