// Sums over very many keys, queries or heads, of equal numbers, whose rounding errors all have the same
// sign: the exact results are known.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/support.h"

namespace regard::test {
namespace {

constexpr std::int64_t many = std::int64_t{1} << 18;

/// The targets of this machine, and the emulated tile unit.
std::vector<std::string> targets_and_emulated() {
  std::vector<std::string> list = runnable_targets();
  list.emplace_back("cpu-amx-emulated");
  return list;
}

/// GPUs compute other sums (tests/gpu/test_long.py).
class LongSum : public testing::Test {
 protected:
  void SetUp() override {
    if (is_gpu(runnable_targets().front())) GTEST_SKIP() << "kernels of CPUs";
  }
};

/// Sets the elements [first, end) of a contiguous tensor.
void fill(Case& c, regard_role role, double value, std::int64_t first, std::int64_t end) {
  const regard_tensor& tensor = c.arguments().tensor[role];
  const std::size_t bytes = bytes_of(static_cast<DType>(tensor.dtype));
  auto* const data = static_cast<std::uint8_t*>(tensor.data);
  c.set(role, first, value);
  for (std::int64_t i = first + 1; i < end; ++i)
    std::memcpy(data + static_cast<std::size_t>(i) * bytes, data + static_cast<std::size_t>(first) * bytes,
                bytes);
}
void fill(Case& c, regard_role role, double value) {
  fill(c, role, value, 0, c.count(role));
}

double relative_error(const Case& c, regard_role role, std::int64_t i, double exact) {
  return std::abs(c.get(role, i) / exact - 1);
}

/// One ulp of an output or, for fp32, the error bound of two thousand additions.
double tolerance(DType dtype) {
  return dtype == DType::fp32 ? 0x1p-15 : dtype == DType::fp16 ? 0x1p-10 : 0x1p-7;
}

struct Forward {
  std::string words, family;
};

/// Kernels that other tests compile as well. The emulated unit is slow.
bool has_kernels(const std::string& target, const std::string& dtype, const std::string& family) {
  if (target == "cpu-amx-emulated") return dtype == "bf16" && (family == "forward" || family == "backward");
  return !(family == "decode" && dtype != "fp32") && !(family == "backward" && dtype == "fp16");
}

// The score of one key in the last part is higher than the others, so that all previous sums have to be
// rescaled, and the weights are not round numbers.
TEST_F(LongSum, Forward) {
  constexpr double score = 6;
  const double lse = std::log(std::exp(score) + static_cast<double>(many - 1));
  for (const std::string dtype : {"fp32", "bf16", "fp16"}) {
    for (const Forward& f :
         {Forward{"splits=1", "forward"}, {"", "forward_split"}, {"splits=2", "decode"}, {"", "generic"}}) {
      Case c("fwd lse h=1 sq=1 sk=" + std::to_string(many) + " d=1 scale=1 " + dtype + " " + f.words);
      fill(c, REGARD_Q, 1);
      fill(c, REGARD_K, 0);
      c.set(REGARD_K, many / 4 * 3, score);
      fill(c, REGARD_V, 0.1);
      for (const std::string& target : targets_and_emulated()) {
        if (!has_kernels(target, dtype, f.family)) continue;
        c.poison_outputs();
        ASSERT_EQ(run(c, {target, f.family}), "");
        EXPECT_LE(relative_error(c, REGARD_O, 0, c.get(REGARD_V, 0)), tolerance(c.problem().dtype))
            << c.description() << " " << f.family << " on " << target;
        EXPECT_NEAR(c.get(REGARD_LSE, 0), lse, 0x1p-16)
            << c.description() << " " << f.family << " on " << target;
      }
    }
  }
}

// One key has all the weight, and that of each other key is a little more than half an ulp of it: added to
// it one by one, they would count twice. Decode computes the rows of a group side by side, each in few
// lanes.
TEST_F(LongSum, OfOneLargeWeightAndSmallOnes) {
  constexpr std::int64_t keys = 16384;
  constexpr double score = -16.63;
  const double lse = std::log(1 + std::exp(static_cast<float>(score)) * static_cast<double>(keys - 1));
  for (const char* family : {"forward", "decode", "generic"}) {
    for (const std::string hq : {"1", "5", "16"}) {
      Case c("fwd fp32 lse hk=1 sq=1 sk=" + std::to_string(keys) + " d=1 scale=1 hq=" + hq);
      fill(c, REGARD_Q, 1);
      fill(c, REGARD_K, score);
      c.set(REGARD_K, 0, 0);
      ASSERT_EQ(run(c, {"", family}), "");
      EXPECT_NEAR(c.get(REGARD_LSE, 0), lse, 0x1p-15) << c.description() << " " << family;
    }
  }
}

// Beyond 2^24 numbers a single fp32 sum would stop growing.
TEST_F(LongSum, ForwardOfMoreKeysThanFp32Counts) {
  constexpr std::int64_t keys = std::int64_t{1} << 25;
  const std::uint16_t tenth = 0x3dcd, one = 0x3f80;
  const std::vector<std::uint16_t> k(keys), v(keys, tenth);
  for (const Forward& f : {Forward{"splits=1", "forward"}, {"splits=2", "decode"}}) {
    const std::string text = "fwd bf16 lse h=1 sq=1 sk=" + std::to_string(keys) + " d=1 " + f.words;
    regard_problem* problem = nullptr;
    regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
    options.family = f.family.c_str();
    options.threads = 2;
    regard_arguments arguments = REGARD_ARGUMENTS_INIT;
    std::uint16_t o = 0;
    float lse = 0;
    ASSERT_EQ(regard_problem_parse(text.c_str(), &problem), REGARD_OK);
    const auto give = [&](regard_role role, const void* data) {
      EXPECT_EQ(regard_problem_tensor(problem, role, nullptr, &arguments.tensor[role]), REGARD_OK);
      arguments.tensor[role].data = const_cast<void*>(data);
    };
    give(REGARD_Q, &one);
    give(REGARD_K, k.data());
    give(REGARD_V, v.data());
    give(REGARD_O, &o);
    give(REGARD_LSE, &lse);
    EXPECT_EQ(regard_attention(problem, &options, &arguments), REGARD_OK) << regard_status_message();
    regard_problem_destroy(problem);
    EXPECT_EQ(o, tenth) << text;
    EXPECT_NEAR(lse, std::log(static_cast<double>(keys)), 0x1p-16) << text;
  }
}

// P = 1/3, dO = c, V = 0, 1, 2: dP - D = c (V - 1), times the queries of both heads.
TEST_F(LongSum, OverQueries) {
  constexpr std::int64_t rows = 70000;
  for (const std::string dtype : {"fp32", "bf16", "fp16"}) {
    Case c("bwd hq=2 hk=1 sq=" + std::to_string(rows) + " sk=3 d=1 scale=1 " + dtype);
    fill(c, REGARD_Q, 1);
    fill(c, REGARD_K, 0);
    for (int key = 0; key < 3; ++key) c.set(REGARD_V, key, key);
    fill(c, REGARD_GRAD_O, 0.1);
    c.compute_forward_inputs();
    const double whole = c.get(REGARD_GRAD_O, 0) * static_cast<double>(2 * rows) / 3;
    for (const std::string& target : targets_and_emulated()) {
      for (const char* family : {"backward", "generic"}) {
        if (!has_kernels(target, dtype, family)) continue;
        c.poison_outputs();
        ASSERT_EQ(run(c, {target, family}), "");
        for (const int key : {0, 1, 2})
          EXPECT_LE(relative_error(c, REGARD_GRAD_V, key, whole), tolerance(c.problem().dtype))
              << c.description() << " " << family << " on " << target;
        for (const int key : {0, 2})
          EXPECT_LE(relative_error(c, REGARD_GRAD_K, key, whole * (key - 1)), tolerance(c.problem().dtype))
              << c.description() << " " << family << " on " << target;
      }
    }
  }
}

// With dbias the queries are one part. All rows but the first two see all keys.
TEST_F(LongSum, OverQueriesOfOnePart) {
  constexpr std::int64_t rows = 140000;
  Case c("bwd fp32 h=1 sq=" + std::to_string(rows) + " sk=3 d=8 mask=causal_top_left bias=11 dbias");
  for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_BIAS}) fill(c, role, 0);
  fill(c, REGARD_GRAD_O, 0.1);
  c.compute_forward_inputs();
  ASSERT_EQ(run(c, {"", "backward"}), "");
  const double of_first[] = {1.5, 0.5, 0};
  for (int key = 0; key < 3; ++key) {
    const double whole = c.get(REGARD_GRAD_O, 0) * (static_cast<double>(rows - 2) / 3 + of_first[key]);
    EXPECT_LE(relative_error(c, REGARD_GRAD_V, 8 * key, whole), tolerance(DType::fp32)) << key;
  }
}

// Half of the keys have V = 0 and K = 0, the others V = 2: dS = c / n there, which is not too small for fp16.
TEST_F(LongSum, OverKeysBackward) {
  constexpr double gradient = 1024, k = 0.7;
  for (const std::string dtype : {"fp32", "bf16", "fp16"}) {
    Case c("bwd h=1 sq=2 sk=" + std::to_string(many) + " d=1 scale=1 " + dtype);
    fill(c, REGARD_Q, 0);
    for (const regard_role role : {REGARD_K, REGARD_V}) {
      fill(c, role, 0, 0, many / 2);
      fill(c, role, role == REGARD_K ? k : 2, many / 2, many);
    }
    fill(c, REGARD_GRAD_O, gradient);
    c.compute_forward_inputs();
    const double whole = gradient / 2 * c.get(REGARD_K, many - 1);
    for (const std::string& target : targets_and_emulated()) {
      for (const char* family : {"backward", "generic"}) {
        if (!has_kernels(target, dtype, family)) continue;
        c.poison_outputs();
        ASSERT_EQ(run(c, {target, family}), "");
        for (const int row : {0, 1})
          EXPECT_LE(relative_error(c, REGARD_GRAD_Q, row, whole), tolerance(c.problem().dtype))
              << c.description() << " " << family << " on " << target;
      }
    }
  }
}

// The second row has P = 1/2, V = 0 and 2: dS = dO columns of every head that shares the bias.
TEST_F(LongSum, OverHeadsThatShareABias) {
  constexpr std::int64_t batches = 20000, columns = 8;
  for (const char* family : {"backward", "generic"}) {
    for (const std::string bias : {"11", "1h"}) {
      Case c("bwd fp32 b=" + std::to_string(batches) +
             " h=2 s=2 d=8 mask=causal_top_left scale=1 dbias bias=" + bias);
      for (const regard_role role : {REGARD_Q, REGARD_K, REGARD_BIAS}) fill(c, role, 0);
      for (std::int64_t i = 0; i < c.count(REGARD_V); ++i)
        c.set(REGARD_V, i, i / (2 * columns) % 2 == 0 ? 0 : 2);
      fill(c, REGARD_GRAD_O, 0.1);
      c.compute_forward_inputs();
      ASSERT_EQ(run(c, {"", family}), "");
      const double of_head = c.get(REGARD_GRAD_O, 0) * columns / 2;
      const double whole = of_head * static_cast<double>(bias == "11" ? 2 * batches : batches);
      for (const int key : {0, 1})
        EXPECT_LE(relative_error(c, REGARD_GRAD_BIAS, 2 + key, key == 0 ? -whole : whole), 0x1p-16)
            << c.description() << " " << family;
    }
  }
}

// Random numbers, with one row or three; and scores that rise from part to part of the keys.
TEST_F(LongSum, OfRandomNumbers) {
  expect_right("fwd fp32 lse sink sq=3 sk=150000 h=1 d=1 splits=1", {"", "forward"});
  expect_right("fwd fp32 lse sq=1 sk=150000 h=1 d=1 splits=2", {"", "decode"});
  expect_right("fwd fp32 lse sink sq=3 sk=150000 h=1 d=1", {"", "generic"});
  expect_right("bwd fp32 sq=3 sk=150000 h=1 d=1", {"", "backward"});
  expect_right("bwd fp32 sq=150000 sk=3 h=1 d=1", {"", "backward"});
  const std::string rising = " sk=140000 h=1 d=40 bias=alibi";
  expect_right("fwd fp32 lse sq=2 splits=1" + rising, {"", "forward"});
  expect_right("fwd fp32 lse sq=2 splits=2" + rising, {"", "decode"});
  expect_right("fwd fp32 lse sq=2" + rising, {"", "generic"});
  expect_right("fwd bf16 lse sink sq=3 sk=150000 h=1 d=1 splits=1", {"cpu-amx-emulated", "forward"});
}

}  // namespace
}  // namespace regard::test
