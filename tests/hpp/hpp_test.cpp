// The C++ API: error statuses of the C ABI become exceptions, and its views compute correctly.
#include "regard/regard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using ::testing::HasSubstr;

/// The error that `call` throws; a test failure if it throws none.
template <class Call>
regard::error error_of(const Call& call) {
  try {
    call();
  } catch (const regard::error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {REGARD_OK, ""};
}

template <class Call>
void expect_error(regard_status status, const std::string& word, const Call& call) {
  const regard::error error = error_of(call);
  EXPECT_EQ(error.status(), status) << word;
  EXPECT_THAT(error.what(), HasSubstr(word));
}

std::vector<float> numbers(std::size_t count, float phase) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i) * 0.7f + phase);
  return values;
}

bool passes(const regard::Problem& problem, const regard::Arguments& arguments) {
  return nlohmann::json::parse(regard::check(problem, arguments))["ok"].get<bool>();
}

TEST(Hpp, ErrorsCarryTheStatusAndTheSentence) {
  const regard::Problem problem("fwd fp32 h=1 s=8 d=8");
  expect_error(REGARD_INVALID, "causal", [] { regard::Problem("fwd bf16 s=64 d=64 mask=causl"); });
  expect_error(REGARD_INVALID, "hq=3", [] { regard::Problem("fwd bf16 hq=3 hk=2 s=64 d=64"); });
  expect_error(REGARD_INVALID, "softcap", [] { regard::Problem::from_json("{\"sofcap\": 3}"); });
  expect_error(REGARD_INVALID, "cpu-avx2", [&] { regard::Plan(problem, {.target = "cpu-avx3"}); });
  const regard::Problem wide("fwd bf16 h=1 s=8 d=576 dv=512");
  expect_error(REGARD_REFUSED, "gfx942", [&] { regard::Plan(wide, {.target = "gfx942"}); });
  expect_error(REGARD_INVALID, "threads=-1", [&] { regard::Plan(problem, {.threads = -1}); });
  expect_error(REGARD_INVALID, "'q' is missing", [&] { regard::attention(problem, regard::Arguments()); });
  expect_error(REGARD_INVALID, "yaml", [&] { regard::explain(problem, {}, "yaml"); });
  expect_error(REGARD_INVALID, "default", [] { regard::list({}, "defualt"); });
  expect_error(REGARD_INVALID, "list", [] { regard::cache("lst"); });
}

TEST(Hpp, TextDoesNotEndAtANul) {
  using std::string_literals::operator""s;
  const std::string word = "character NUL";
  const regard::Problem problem("fwd fp32 h=1 s=8 d=8");
  expect_error(REGARD_INVALID, word, [] { regard::Problem("fwd bf16 s=64 d=64\0 mask=causal"s); });
  expect_error(REGARD_INVALID, word, [] { regard::Problem::from_json("{}\0x"s); });
  expect_error(REGARD_INVALID, word, [&] { regard::Plan(problem, {.target = "cpu-generic\0x"s}); });
  expect_error(REGARD_INVALID, word, [&] { regard::Plan(problem, {.family = "generic\0x"s}); });
  expect_error(REGARD_INVALID, word, [&] { regard::explain(problem, {}, "text\0x"s); });
  expect_error(REGARD_INVALID, word, [] { regard::Memory(8, "cpu-generic\0x"s); });
  expect_error(REGARD_INVALID, word, [] { regard::list("cpu-generic\0x"s); });
  expect_error(REGARD_INVALID, word, [] { regard::list({}, "default\0x"s); });
  expect_error(REGARD_INVALID, word, [] { regard::prepare_kernel("cpu-generic\0x"s); });
  expect_error(REGARD_INVALID, word, [] { regard::cache("stat\0x"s); });
  expect_error(REGARD_INVALID, word, [] { regard::build_manifest("te.toml\0x"s); });
  expect_error(REGARD_INVALID, word, [] { regard::build_manifest("te.toml", {.text = "\0"s}); });
  expect_error(REGARD_INVALID, word, [] { regard::build_manifest("te.toml", {.output = "\0"s}); });
}

TEST(Hpp, SaysWhatAManifestSelects) {
  const std::string text =
      "[build]\ntargets = [\"cpu-avx2\"]\n[[variants]]\nproblems = [\"fwd bf16 s=64 d=64\"]\n";
  const auto answer = nlohmann::json::parse(regard::build_manifest("te.toml", {.text = text, .only = 2}));
  EXPECT_EQ(answer["manifest"], "te.toml");
  EXPECT_EQ(answer["count"], answer["kernels"].size());
  EXPECT_EQ(answer["kernels"][0]["lines"], nlohmann::json::array({4}));
  expect_error(REGARD_INVALID, "te.toml:5: unknown key",
               [&] { regard::build_manifest("te.toml", {.text = text + "x = 1\n", .only = 1}); });
}

TEST(Hpp, NegativeAmountsOfMemoryAreRefused) {
  expect_error(REGARD_INVALID, "-5 bytes", [] { regard::Memory(-5); });
  expect_error(REGARD_INVALID, "-5 bytes", [] { regard::Workspace(-5); });
  EXPECT_EQ(regard::Memory(0).data(), nullptr);
}

TEST(Hpp, WhatWasMovedFromSaysSo) {
  regard::Problem problem("fwd fp32 h=1 s=8 d=8");
  regard::Plan plan(problem);
  const regard::Problem moved = std::move(problem);
  const regard::Plan moved_plan = std::move(plan);
  expect_error(REGARD_INVALID, "moved from", [&] { problem.text(); });  // NOLINT: this use is tested
  expect_error(REGARD_INVALID, "moved from", [&] { problem.json(); });
  expect_error(REGARD_INVALID, "moved from", [&] { plan.target(); });  // NOLINT: likewise
}

TEST(Hpp, AnErrorIsARuntimeErrorWhoseSentenceOutlivesTheNextCall) {
  const regard::error first = error_of([] { regard::Problem("fwd bf16 s=64 d=64 mask=causl"); });
  error_of([] { regard::Problem("fwd bf16 s=64 d=64 softcap=-1"); });
  const std::runtime_error& base = first;
  EXPECT_THAT(base.what(), HasSubstr("causl"));
}

TEST(Hpp, ATensorIsContiguousUnlessStridesAreGiven) {
  float data = 0;
  const regard::Tensor contiguous = regard::fp32(&data, {2, 3, 4, 5});
  EXPECT_THAT(contiguous.strides, ::testing::ElementsAre(60, 20, 5, 1));
  EXPECT_EQ(contiguous.rank, 4);
  EXPECT_EQ(contiguous.dtype, REGARD_FP32);
  const regard::Tensor strided = regard::tensor(&data, REGARD_BF16, {2, 3}, {8, 1});
  EXPECT_EQ(strided.strides[0], 8);
  expect_error(REGARD_INVALID, "not 5", [&] { regard::fp32(&data, {1, 1, 1, 1, 1}); });
  expect_error(REGARD_INVALID, "not 0", [&] { regard::fp32(&data, {}); });
  expect_error(REGARD_INVALID, "one stride", [&] { regard::tensor(&data, REGARD_BF16, {2, 3}, {1}); });
}

TEST(Hpp, ARoleThatDoesNotExistIsRefused) {
  const regard::Problem problem("fwd fp32 h=1 s=8 d=8");
  regard::Arguments arguments;
  for (const int number : {-1, static_cast<int>(REGARD_ROLE_COUNT), 1 << 20}) {
    const auto role = static_cast<regard_role>(number);
    const std::string word = "role " + std::to_string(number);
    expect_error(REGARD_INVALID, word, [&] { arguments.set(role, {}); });
    expect_error(REGARD_INVALID, word, [&] { return arguments[role].rank; });
    expect_error(REGARD_INVALID, word, [&] { problem.expected(role); });
  }
}

TEST(Hpp, AProblemSaysWhatItExpects) {
  const regard::Problem problem("bwd bf16 b=2 hq=4 hk=2 sq=8 sk=16 d=16");
  EXPECT_EQ(regard::Problem::from_json(problem.json()).text(), problem.text());
  const auto k = problem.expected(REGARD_K);
  EXPECT_EQ(k.use, REGARD_INPUT);
  EXPECT_THAT(k.tensor.shape, ::testing::ElementsAre(2, 16, 2, 16));
  EXPECT_EQ(problem.expected(REGARD_GRAD_K).use, REGARD_OUTPUT);
  EXPECT_EQ(problem.expected(REGARD_BIAS).use, REGARD_UNUSED);
}

// The forward pass writes O and LSE of one sequence, the backward pass reads them; by attention() and by a
// plan.
TEST(Hpp, ForwardAndBackwardAreRight) {
  constexpr std::int64_t b = 2, s = 33, hq = 4, hk = 2, d = 24;
  constexpr std::size_t q_size = b * s * hq * d, k_size = b * s * hk * d;
  const std::string shape = "fp32 b=2 hq=4 hk=2 s=33 d=24 mask=causal";
  std::vector<float> q = numbers(q_size, 0), k = numbers(k_size, 1), v = numbers(k_size, 2), o(q_size),
                     lse(b * hq * s);
  regard::Arguments arguments;
  arguments.set(REGARD_Q, regard::fp32(q.data(), {b, s, hq, d}))
      .set(REGARD_K, regard::fp32(k.data(), {b, s, hk, d}))
      .set(REGARD_V, regard::fp32(v.data(), {b, s, hk, d}))
      .set(REGARD_O, regard::fp32(o.data(), {b, s, hq, d}))
      .set(REGARD_LSE, regard::fp32(lse.data(), {b, hq, s}));
  const regard::Problem forward("fwd lse " + shape);
  EXPECT_FALSE(passes(forward, arguments)) << "nothing has been computed yet";
  regard::attention(forward, arguments);
  EXPECT_TRUE(passes(forward, arguments)) << regard::check(forward, arguments);

  std::vector<float> grad_o = numbers(q_size, 3), grad_q(q_size), grad_k(k_size), grad_v(k_size);
  arguments.set(REGARD_GRAD_O, regard::fp32(grad_o.data(), {b, s, hq, d}))
      .set(REGARD_GRAD_Q, regard::fp32(grad_q.data(), {b, s, hq, d}))
      .set(REGARD_GRAD_K, regard::fp32(grad_k.data(), {b, s, hk, d}))
      .set(REGARD_GRAD_V, regard::fp32(grad_v.data(), {b, s, hk, d}));
  const regard::Problem backward("bwd " + shape);
  regard::Plan plan(backward, {.threads = 2});
  EXPECT_FALSE(plan.on_gpu());
  plan.prepare();
  const regard::Workspace workspace(plan);
  expect_error(REGARD_INVALID, "workspace",
               [&] { plan.run(arguments, workspace.data(), workspace.bytes() - 1); });
  plan.run(arguments, workspace.data(), workspace.bytes());
  EXPECT_TRUE(passes(backward, arguments)) << regard::check(backward, arguments);
}

}  // namespace
