// What AMD's targets say of their chips, and what they serve: every valid problem that portable kernels know,
// up to head dimensions of 512.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "generated_docs.h"
#include "plan/plan.h"
#include "problem/fields.h"
#include "problem/words.h"

namespace regard {
namespace {

using testing::HasSubstr;

constexpr std::int64_t largest_head_dim = 512;

std::vector<const Target*> amd_targets() {
  std::vector<const Target*> all;
  for (const Target& target : *targets())
    if (target.kind == TargetKind::hip) all.push_back(&target);
  std::ranges::sort(all, {}, &Target::name);
  return all;
}

bool is_cdna(const Target& target) {
  return target.wave == 64;
}

/// "32x32x8" of each instruction.
std::set<std::string> shapes(const Target& target, DType dtype) {
  std::set<std::string> all;
  for (const Target::Fragment& f : target.fragments)
    if (std::ranges::find(f.dtypes, dtype) != f.dtypes.end())
      all.insert(fmt::format("{}x{}x{}", f.m, f.n, f.k));
  return all;
}

TEST(AmdTargets, HaveTheShapesOfSingleInstructions) {
  using Shapes = std::set<std::string>;
  for (const Target* target : amd_targets()) {
    const bool cdna = is_cdna(*target);
    const Shapes of_16_bits = !cdna                      ? Shapes{"16x16x16"}
                              : target->name == "gfx950" ? Shapes{"32x32x16", "16x16x32"}
                                                         : Shapes{"32x32x8", "16x16x16"};
    const Shapes of_32_bits = cdna ? Shapes{"32x32x2", "16x16x4"} : Shapes{"16x16x4"};
    for (const DType dtype : target->dtypes) {
      const Shapes& expected = dtype == DType::fp32 ? of_32_bits : of_16_bits;
      EXPECT_EQ(shapes(*target, dtype), expected) << target->name << " " << word(dtype);
    }
  }
}

/// A unit is what the waves of a block share, which has four SIMDs: a compute unit, or two of RDNA's. The
/// lanes of a wave have at least as many registers as instructions can name.
TEST(AmdTargets, CountUnitsAndTheirRegistersAlike) {
  constexpr int simds = 4;
  for (const Target* target : amd_targets()) {
    const int of_lane = target->registers / (simds * target->wave);
    if (is_cdna(*target))
      EXPECT_EQ(of_lane, 512) << target->name;
    else
      EXPECT_THAT(of_lane, testing::AnyOf(1024, 1536)) << target->name;
  }
  const auto units = [](std::string_view name) { return (*find_target(name))->units; };
  EXPECT_EQ(units("gfx90a"), 110);  // compute units of one die of an MI250X
  EXPECT_EQ(units("gfx942"), 304);  // of an MI300X
  EXPECT_EQ(units("gfx950"), 256);  // of an MI355X
  EXPECT_EQ(units("gfx1100"), 48);  // half of an RX 7900 XTX's 96
  EXPECT_EQ(units("gfx1201"), 32);  // half of an RX 9070 XT's 64
}

TEST(AmdTargets, OfChipsOfSeveralDiesSaySo) {
  for (const Target* target : amd_targets())
    EXPECT_EQ(target->dies, is_cdna(*target) && target->name != "gfx90a" ? 8 : 1) << target->name;
}

TEST(AmdTargets, HaveNoKernelsOfOtherMakers) {
  const Result<Problem> p = parse("fwd bf16 b=1 h=2 s=256 d=128");
  for (const Target* target : amd_targets()) {
    const Result<Plan> plan_of_hopper = plan(*p, *target, {.family = "sm90_forward"});
    ASSERT_FALSE(plan_of_hopper) << target->name;
    EXPECT_EQ(plan_of_hopper.error().kind, ErrorKind::refused);
    EXPECT_TRUE(plan(*p, *target, {.family = "portable_forward"})) << target->name;
    const Result<Plan> of_a_typo = plan(*p, *target, {.family = "portable_forwrad"});
    ASSERT_FALSE(of_a_typo);
    EXPECT_THAT(of_a_typo.error().message, HasSubstr("did you mean 'portable_forward'?"));
  }
}

/// Everything that a signature can have, each at random. Not always a valid problem.
class RandomProblem {
 public:
  explicit RandomProblem(std::uint64_t seed) : random_(seed) {}

  Problem next() {
    Problem p;
    p.pass = coin() ? Pass::fwd : Pass::bwd;
    any(p.dtype), any(p.out), any(p.bias), any(p.bias_type), any(p.mask), any(p.descale);
    for_each_following_type(p, [&](Field field, DType& type) {
      if (field == Field::kv || field == Field::rope_type) type = default_type(field, p.dtype);
    });
    if (!rarely()) p.out = default_out(p.dtype);
    if (coin()) p.bias = Bias::none;
    if (!has_elementwise_bias(p.bias) || coin()) p.bias_type = default_bias_type(p.dtype);
    if (coin() || p.descale == Descale::token) p.descale = Descale::none;
    p.d = head_dim();
    p.dv = coin() ? p.d : head_dim();
    p.varlen = coin(), p.lengths = coin(), p.ranges = rarely(), p.bits = rarely(), p.sink = coin();
    p.deterministic = p.pass == Pass::bwd && coin();
    p.dbias = p.pass == Pass::bwd && has_elementwise_bias(p.bias) && coin();
    p.lse = p.pass == Pass::fwd && coin();
    if (coin()) p.dropout = 0.25;
    p.dropout_mask = p.pass == Pass::fwd && p.dropout > 0 && rarely();
    if (rarely()) p.softcap = 30;
    // The dropout mask is written by the kernel that does not split.
    if (p.pass == Pass::fwd && !p.dropout_mask) p.splits = below(4);
    p.batch_invariant = p.pass == Pass::fwd && p.splits < 2 && rarely();
    p.hk = 1 + below(3);
    p.hq = p.hk * (1 + below(4));
    p.b = 1 + below(3);
    p.sq = below(300);
    p.sk = below(3000);
    if (p.mask == Mask::window || p.mask == Mask::window_top_left) p.window_left = 40;
    return p;
  }

 private:
  std::int64_t below(std::uint64_t n) { return static_cast<std::int64_t>(random_() % n); }
  bool coin() { return below(2) == 0; }
  bool rarely() { return below(4) == 0; }
  std::int64_t head_dim() { return 1 + below(largest_head_dim); }
  template <class Enum>
  void any(Enum& value) {
    value = static_cast<Enum>(below(words_of<Enum>().size()));
  }

  std::mt19937_64 random_;
};

TEST(AmdTargets, HaveAPlanForEveryValidProblem) {
  const std::uint64_t seed = std::random_device{}();
  RandomProblem random(seed);
  int valid = 0;
  for (int i = 0; i < 10000 && !HasFailure(); ++i) {
    const Problem p = random.next();
    if (!validate(p)) continue;
    ++valid;
    for (const Target* target : amd_targets()) {
      const Result<Plan> found = plan(p, *target, {});
      EXPECT_TRUE(found) << "seed " << seed << ": " << found.error().message;
    }
  }
  EXPECT_GT(valid, 1000);
}

/// The largest head dimension of Q, K and V up to which there is a plan. Those between a tile's largest one
/// and the next tile's are alike.
std::int64_t served_up_to(const std::string& words, const Target& target) {
  const auto has_plan = [&](std::int64_t d) {
    return plan(*parse(fmt::format("{} b=2 hq=4 hk=2 s=200 d={}", words, d)), target, {}).has_value();
  };
  std::int64_t most = 0;
  for (; most < largest_head_dim && has_plan(most + 1) && has_plan(most + 64); most += 64) {
  }
  return most;
}

/// "512", or "512; gfx90a, gfx942: 256".
std::string served(const std::string& words) {
  const Result<Problem> sense = parse(words + " b=2 hq=4 hk=2 s=200 d=64");
  if (!sense || !validate(*sense)) return "";
  std::map<std::int64_t, std::vector<std::string>, std::greater<>> targets_of;
  for (const Target* target : amd_targets()) targets_of[served_up_to(words, *target)].push_back(target->name);
  std::string text;
  for (const auto& [most, names] : targets_of)
    text += text.empty() ? fmt::format("{}", most) : fmt::format("; {} on {}", most, fmt::join(names, ", "));
  return text;
}

TEST(AmdTargets, AreDocumented) {
  const std::vector<std::string_view> columns = {
      "fwd fp16",     "fwd bf16",          "fwd fp32", "fwd fp8",  "fwd fp8_e5m2",
      "fwd fp8_fnuz", "fwd fp8_e5m2_fnuz", "bwd fp16", "bwd bf16", "bwd fp32"};
  std::string table = "| feature |", line = "|---|";
  for (const std::string_view column : columns) table += fmt::format(" `{}` |", column), line += "---|";
  table += "\n" + line + "\n";
  for (const std::string words : {"",
                                  "mask=causal",
                                  "mask=causal_top_left",
                                  "mask=window:64,0,sink=4",
                                  "bits",
                                  "ranges",
                                  "bias=bh",
                                  "bias=bh dropout=0.1",
                                  "bias=alibi",
                                  "bias=bh dbias",
                                  "softcap=20",
                                  "softcap=20 bias=bh dropout=0.1",
                                  "sink",
                                  "dropout=0.1",
                                  "dropout=0.1 dropout_mask",
                                  "lse",
                                  "varlen",
                                  "lengths",
                                  "splits=3",
                                  "batch_invariant",
                                  "deterministic",
                                  "descale=head",
                                  "out=fp32"}) {
    table += fmt::format("| {} |", words.empty() ? "none" : "`" + words + "`");
    for (const std::string_view column : columns)
      table += fmt::format(" {} |", served(fmt::format("{} {}", column, words)));
    table += "\n";
  }
  expect_generated_docs("amd-rules.md", table);
}

}  // namespace
}  // namespace regard
