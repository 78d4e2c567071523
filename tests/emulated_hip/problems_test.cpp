// The portable kernels on each kind of AMD GPU, against the oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "emulated_hip/kernel.h"
#include "emulated_hip/problem.h"
#include "support/every_code.h"

namespace regard::test {
namespace {

const std::vector<std::string> chips = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

const std::vector<std::string> problems = {
    "fwd bf16 lse d=128 b=1 hq=2 hk=1 s=200 mask=causal",
    "fwd fp16 lse row_max d=64 b=2 h=2 sq=100 sk=77 mask=window:30,3,sink=5 dropout=0.2 sink",
    "fwd bf16 lse d=40 dv=111 b=3 hq=4 hk=2 sq=100 sk=200 lengths mask=causal bias=bh",
    "fwd bf16 lse row_max d=128 b=1 hq=8 hk=1 sq=1 sk=1000 splits=3",
    "fwd fp8 out=bf16 lse row_max d=128 b=1 h=2 s=150 softcap=20 mask=causal",
    "fwd fp8_e5m2 lse d=64 b=1 h=2 s=100",
    "fwd fp8_fnuz out=fp8_fnuz lse d=64 b=1 h=2 s=100 mask=causal",
    "fwd fp8_e5m2_fnuz out=fp8_e5m2_fnuz lse row_max d=40 b=1 hq=4 hk=2 sq=3 sk=200 splits=2 descale=head",
    "fwd bf16 lse row_max d=96 b=2 h=2 s=150 tq=200 tk=200 varlen bits scale=40",
    "fwd bf16 lse d=7 b=1 h=2 s=90 bias=alibi",
    "fwd bf16 lse d=256 b=1 hq=2 hk=1 s=150 mask=causal",
    "fwd fp32 lse row_max d=111 dv=59 b=1 h=2 s=100 mask=window:20,5",
    "fwd fp16 lse d=512 b=1 h=1 s=100",
    "fwd fp32 lse d=300 b=1 h=1 sq=40 sk=90 dropout=0.3",
    "bwd bf16 d=64 b=1 hq=2 hk=1 s=150 mask=causal",
    "bwd fp16 d=64 b=2 h=2 sq=100 sk=77 mask=window:30,3,sink=5 dropout=0.2 sink dlse",
    "bwd bf16 d=40 dv=59 b=3 hq=4 hk=2 sq=100 sk=200 lengths mask=causal bias=bh dbias",
    "bwd fp16 d=64 b=2 h=2 s=150 tq=200 tk=200 varlen bits deterministic",
    "bwd bf16 d=7 b=1 h=2 s=90 bias=alibi softcap=5",
    "bwd fp32 d=59 b=1 h=2 s=100 mask=causal",
    "bwd bf16 d=128 b=1 hq=2 hk=1 s=150 mask=causal",
    "bwd fp16 d=512 b=1 h=1 s=100",
    "bwd fp32 d=200 dv=111 b=1 h=2 s=70 bias=bh dbias",
    "bwd fp32 d=32 b=1 h=1 s=40"};

class HipProblems : public testing::TestWithParam<std::string> {};

TEST_P(HipProblems, AreRight) {
  // Every chip computes the first of forward and of backward, and every second one of the others: kernels are
  // compiled for each chip.
  const std::size_t chip = std::ranges::find(chips, GetParam()) - chips.begin();
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const bool first = i == 0 || problems[i - 1].substr(0, 3) != problems[i].substr(0, 3);
    if (!first && i % 2 != chip % 2) continue;
    expect_right(GetParam(), problems[i]);
  }
}

TEST_P(HipProblems, EveryCodeIsExact) {
  std::vector<std::string> dtypes = {"fp8_fnuz", "fp8_e5m2_fnuz"};
  if (GetParam() == "gfx942") dtypes.insert(dtypes.end(), {"fp8", "fp8_e5m2"});
  for (const std::string& dtype : dtypes) {
    Case c = every_code(dtype);
    EXPECT_EQ(compute_on(GetParam(), c), "") << dtype;
    EXPECT_EQ(wrong_codes(c, GetParam() == "gfx90a"), "") << dtype;  // whose weights are larger
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, HipProblems, testing::ValuesIn(chips),
                         [](const auto& info) { return info.param; });

/// About half of a tensor's numbers are subnormal in fp16.
template <regard_role small>
std::optional<double> small_number(const Problem&, regard_role role, std::int64_t row, std::int64_t column) {
  if (role != small) return {};
  return 0x1p-13 * std::sin(13.0 * static_cast<double>(row) + 78.2 * static_cast<double>(column));
}

/// In some tiles so large that dS does not fit into fp16 if it is scaled for subnormal numbers.
std::optional<double> large_grad_o(const Problem&, regard_role role, std::int64_t row, std::int64_t column) {
  if (role != REGARD_GRAD_O || row / 64 != 1) return {};
  return 4000 * std::sin(13.0 * static_cast<double>(row) + 78.2 * static_cast<double>(column));
}

/// gfx90a's matrix instructions take subnormal numbers of fp16 as 0, its kernels do not.
TEST(HipProblems, SubnormalNumbersCount) {
  const std::string forward = "fwd fp16 lse d=64 b=1 h=1 s=100 scale=",
                    backward = "bwd fp16 d=64 b=1 h=1 s=150";
  const struct {
    std::string problem;
    Numbers numbers;
    const char* needed = "";  // part of the kernel without which the result is wrong
  } cases[] = {
      {forward + "1", {"small V", small_number<REGARD_V>}, "add_subnormals<false>(c[i], a, x[i]);"},
      {forward + "1000", {"small Q", small_number<REGARD_Q>}, "add_subnormals<true>(c[i], a, x[i]);"},
      {forward + "1000", {"small K", small_number<REGARD_K>}},
      {backward, {"small dO", small_number<REGARD_GRAD_O>}},
      {backward, {"large dO", large_grad_o}, "scale_all(grad, 1 / ds_scale_of_subnormals());"}};
  for (const auto& c : cases) {
    CaseOptions options;
    options.numbers = &c.numbers;
    const auto mistakes = [&](const Change& change) {
      return mistakes_on("gfx90a", c.problem, change, 1, "", options);
    };
    EXPECT_EQ(mistakes({}), "") << c.problem << ", " << c.numbers.name;
    if (*c.needed == '\0') continue;
    const std::string found =
        mistakes([&](const std::string& source) { return with_change(source, c.needed, ";"); });
    EXPECT_NE(found, "") << c.needed;
    EXPECT_EQ(found.find("error:"), std::string::npos) << found;  // it does not even compile
  }
}

/// A weight that is NaN may become a number, but the sum of its row is NaN.
TEST(HipProblems, NanIsNotHidden) {
  CaseOptions of_row, of_key;
  of_row.nan_row = 0, of_key.nan_key = 70;
  for (const CaseOptions& options : {of_row, of_key})
    EXPECT_EQ(mistakes_on("gfx942", "fwd bf16 lse d=64 b=1 h=1 s=100 mask=window:20,3", {}, 1, "", options),
              "");
}

/// A fault in a rendered kernel: `from` is there once.
struct Fault {
  const char *name, *from, *to, *chip = "gfx942";
  friend std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }
};

class HipBrokenKernels : public testing::TestWithParam<Fault> {};

TEST_P(HipBrokenKernels, AreFound) {
  const Fault& fault = GetParam();
  constexpr int seeds = 4;
  const auto broken = [&](const std::string& source) { return with_change(source, fault.from, fault.to); };
  std::string found;
  for (int seed = 1; seed <= seeds && found.empty(); ++seed)
    found = mistakes_on(fault.chip, "fwd bf16 lse d=128 b=1 hq=2 hk=1 sq=130 sk=170", broken, seed,
                        "portable_forward block_q=128");  // of several waves
  EXPECT_NE(found, "");
  EXPECT_EQ(found.find("error:"), std::string::npos) << found;  // it does not even compile
}

INSTANTIATE_TEST_SUITE_P(
    All, HipBrokenKernels,
    testing::Values(
        Fault{"k_is_not_waited_for", "sync_block();\n      load_values(", "load_values("},
        Fault{"v_is_not_waited_for",
              "if constexpr (!blocks_vote) meet_for_values(copies, slot, turn, false);", ""},
        Fault{"k_does_not_arrive",
              "copies.keys.template arrive<pending>(keys_in(slot), source(turn, false));", ""},
        Fault{"v_arrives_in_place_of_k", "arrive<pending>(values_in(slot), source",
              "arrive<pending>(keys_in(slot), source"},
        Fault{"vectors_arrive_in_another_order", "store_vector(to_vector, words_[i]);",
              "store_vector(to_vector, words_[count - 1 - i]);"},
        Fault{"a_wrong_column", "i / neighbours * 8 + i % neighbours", "i"},
        Fault{"another_order_of_v", "SumOrder::p ? 4 : 8", "SumOrder::p ? 8 : 8"},
        Fault{"a_tail_is_not_zeroed", "if (bytes == 16) {", "if (bytes >= 0) {"},
        Fault{"swizzled_on_one_side", "swizzle_of<row_bytes>(rows) ^ bytes", "bytes"},
        Fault{"another_table_of_a_transposed_read", "row + lane() % 16 / 4", "row + lane() % 4", "gfx950"},
        Fault{"a_sum_of_half_a_row", "return x + bits_as<float>(from_other_part(bits_as<u32>(x)));",
              "return x;"},
        Fault{"halves_exchanged", "odd ? high_halves : low_halves", "odd ? low_halves : high_halves"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace regard::test
