// New tokens in a cache: where they are written, rotated and quantised, and that attention sees them.
#include <gtest/gtest.h>

#include <cmath>

#include "oracle/number.h"
#include "run_case.h"

namespace regard::test {
namespace {

/// Does what a kernel does: stores what the oracle says, rounded. Factors come first, as numbers depend on
/// them.
oracle::Outputs answer(Case& c) {
  c.poison_outputs();
  auto* const tensors = c.arguments().tensor;
  const auto store = [&](regard_role role, const oracle::Output& output) {
    for (std::size_t i = 0; i < output.value.size(); ++i) {
      if (!output.has_result(i)) continue;
      std::int64_t flat = output.written ? (*output.written)[i] : static_cast<std::int64_t>(i), offset = 0;
      const regard_tensor& tensor = tensors[role];
      for (int d = tensor.rank; d-- > 0; flat /= tensor.shape[d])
        offset += flat % tensor.shape[d] * tensor.strides[d];
      oracle::encode(tensor.dtype, tensor.data, offset, output.value[i]);
    }
  };
  for (const auto& [role, output] : run(c))
    if (role == REGARD_DESCALE_K || role == REGARD_DESCALE_V) store(role, output);
  for (const auto& [role, output] : run(c))
    if (role == REGARD_K || role == REGARD_V || role == REGARD_K_ROPE) store(role, output);
  const oracle::Outputs outputs = run(c);
  for (const auto& [role, output] : outputs)
    if (role == REGARD_O || role == REGARD_LSE) store(role, output);
  return outputs;
}

const std::string sizes = " b=5 hq=4 hk=2 sk=41 d=16 ";

const std::vector<std::string> problems = {
    "fwd bf16 sq=2 snew=2 lengths paged=4 lse mask=causal" + sizes,
    "fwd bf16 sq=2 snew=2 paged=4 lse" + sizes,
    "fwd bf16 sq=3 snew=2 lengths paged=4 pages=80 left_padding lse rope=half rotary=16 rope_rows=60" + sizes,
    "fwd fp32 sq=2 snew=3 table=sglang paged=5 rope=interleaved rotary=6 mask=window:7,0 rope_rows=50" +
        sizes,
    "fwd fp16 sq=2 snew=3 cache=8 lengths rope=half rotary=10 rope_type=fp32 positions=sequence lse" + sizes,
    "fwd fp16 sq=2 snew=3 tnew=7 cache=8 lengths left_padding mask=causal" + sizes,
    "fwd fp32 varlen sq=4 tq=12 snew=4 tnew=12 lengths paged=3 mask=causal rope=half rotary=16 rope_rows=64" +
        sizes,
    "fwd bf16 sq=1 snew=1 lengths kv=fp8 descale=head paged=4 dv=8" + sizes,
    "fwd bf16 sq=1 snew=1 lengths kv=int8 descale=token paged=4 rope=half rotary=8 rope_rows=50" + sizes,
    "fwd bf16 sq=1 snew=2 lengths kv=fp8_e5m2 descale=page paged=4" + sizes,
    "fwd fp16 sq=1 snew=2 kv=fp8 cache=5 lengths" + sizes,
    "append bf16 snew=2 lengths kv=fp8 descale=columns paged=4 b=5 hq=4 hk=2 sk=41 d=144 dv=128 latent "
    "k_rope "
    "rope=half rotary=8 rope_rows=50",
    "fwd fp8 sq=1 snew=2 descale=head cache=5 lengths" + sizes,
    "append bf16 snew=2 lengths paged=4" + sizes,
    "append bf16 snew=2 tnew=9 table=sglang paged=4" + sizes,
    "append fp32 snew=2 cache=6 lengths left_padding rope=interleaved rotary=8 positions=token" + sizes,
    "append fp16 tnew=13 slots=int64 paged=4 pages=9 kv=int8 descale=token" + sizes,
    "append bf16 tnew=13 slots=int32 rope=half rotary=12 rope_type=fp32 positions=token" + sizes,
    "append bf16 tnew=13 slots=int64 cache=3 kv=fp8 descale=tensor" + sizes,
    "append bf16 snew=17 lengths paged=16 kv_layout=vectorized kv=int8 descale=token" + sizes,
    "append fp16 snew=17 lengths paged=8 kv_layout=vectorized dv=8" + sizes,
};

// What kernels get from a Case is what the library accepts.
TEST(Append, CasesAreProblemsThatCanBeRun) {
  std::vector<std::string> texts = problems;
  for (const char* words :
       {"lengths left_padding mask=window:5,0", "table=sglang left_padding", "lengths varlen tq=8"})
    texts.push_back("fwd bf16 sq=3 paged=4 " + std::string(words) + sizes);
  for (const std::string& text : texts) {
    for (std::uint64_t seed = 1; seed < 20; ++seed) {
      CaseOptions options;
      options.seed = seed;
      const Case c(text, options);
      const Status tensors = check_tensors(c.problem(), c.arguments());
      EXPECT_TRUE(tensors) << c.description() << ": " << tensors.error().message;
      const Status values = check_host_values(c.problem(), c.arguments());
      EXPECT_TRUE(values) << c.description() << ": " << values.error().message;
    }
  }
}

TEST(Append, AcceptsTheRoundedAnswer) {
  for (const std::string& text : problems) {
    CaseOptions options;
    options.padded_rows = true;
    Case c(text, options);
    EXPECT_EQ(c.mistakes(answer(c)), "") << c.description();
  }
}

regard_role role_of_v(const Case& c) {
  return c.problem().latent ? REGARD_K : REGARD_V;
}

TEST(Append, MissesNoRowThatIsNotWritten) {
  for (const std::string& text : problems) {
    Case c(text);
    oracle::Outputs expected = answer(c);
    const auto written = *expected.at(role_of_v(c)).written;
    ASSERT_FALSE(written.empty()) << text;
    c.poison_outputs();
    EXPECT_NE(c.mistakes(run(c)), "") << text;
  }
}

TEST(Append, MissesNoByteThatIsChanged) {
  for (const std::string& text : problems) {
    Case c(text);
    const oracle::Outputs expected = answer(c);
    const auto written = *expected.at(role_of_v(c)).written;
    std::int64_t other = 0;
    while (std::ranges::find(written, other) != written.end()) ++other;
    auto* const data = static_cast<std::uint8_t*>(c.arguments().tensor[role_of_v(c)].data);
    data[other * static_cast<std::int64_t>(bytes_of(c.problem().kv))] ^= 1;
    EXPECT_NE(c.mistakes(expected), "") << text;
  }
}

TEST(Append, TokensFollowTheKeysOfTheirSequence) {
  Case c("append fp32 b=2 hk=1 sk=6 d=2 snew=2 lengths paged=2 pages=8");
  const int table[] = {5, 3, -1, 0, 7, 2};
  for (int i = 0; i < 6; ++i) c.set(REGARD_PAGE_TABLE, i, table[i]);
  c.set(REGARD_LENGTHS_K, 0, 1);
  c.set(REGARD_LENGTHS_K, 1, 4);
  for (int i = 0; i < 8; ++i) c.set(REGARD_K_NEW, i, i);
  const oracle::Output k = run(c).at(REGARD_K);
  // Rows 1 and 2 of the first sequence: page 5 row 1, page 3 row 0. Rows 4 and 5 of the second: page 2.
  EXPECT_EQ(*k.written, (std::vector<std::int64_t>{22, 23, 12, 13, 8, 9, 10, 11}));
  EXPECT_EQ(k.value, (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Append, SlotsAreRowsOfTheCacheAndNegativeOnesAreNotWritten) {
  Case c("append fp32 hk=1 sk=6 d=1 tnew=3 slots=int64 paged=4 pages=8");
  c.set(REGARD_SLOTS, 0, 9);
  c.set(REGARD_SLOTS, 1, -1);
  c.set(REGARD_SLOTS, 2, 31);
  EXPECT_EQ(*run(c).at(REGARD_K).written, (std::vector<std::int64_t>{9, 31}));
  Case dense("append fp32 hk=1 sk=6 d=1 tnew=2 slots=int32 cache=3");
  dense.set(REGARD_SLOTS, 0, 17);
  dense.set(REGARD_SLOTS, 1, 0);
  EXPECT_EQ(*run(dense).at(REGARD_K).written, (std::vector<std::int64_t>{17, 0}));
}

TEST(Append, SequencesWithoutKeysOrRoomAreNotWritten) {
  Case c("append fp32 b=3 hk=1 sk=4 d=1 snew=2 lengths cache=3");
  c.set(REGARD_CACHE_INDEX, 0, 2);
  c.set(REGARD_CACHE_INDEX, 1, 0);
  c.set(REGARD_CACHE_INDEX, 2, 1);
  const int lengths[] = {-1, 3, 0};
  for (int i = 0; i < 3; ++i) c.set(REGARD_LENGTHS_K, i, lengths[i]);
  EXPECT_EQ(*run(c).at(REGARD_K).written, (std::vector<std::int64_t>{3, 4, 5}));
}

/// One token of d = 4 at position 2, with cos = 0.5, 0.25 and sin = 2, 4 in this row of the tables.
std::vector<double> rotated(const std::string& words) {
  Case c("append fp32 hk=1 sk=8 d=4 snew=1 lengths " + words);
  c.set(REGARD_LENGTHS_K, 0, 2);
  for (int i = 0; i < 4; ++i) c.set(REGARD_K_NEW, i, i + 1);
  const std::int64_t half = c.problem().rotary / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    c.set(REGARD_ROPE_COS, 2 * half + i, std::exp2(-1 - i));
    c.set(REGARD_ROPE_SIN, 2 * half + i, std::exp2(1 + i));
  }
  return run(c).at(REGARD_K).value;
}

TEST(Append, RotatesPairs) {
  EXPECT_EQ(rotated("rope=interleaved rotary=4"), (std::vector<double>{0.5 - 4, 2 + 1, 0.75 - 16, 12 + 1}));
  EXPECT_EQ(rotated("rope=half rotary=4"), (std::vector<double>{0.5 - 6, 0.5 - 16, 2 + 1.5, 8 + 1}));
  EXPECT_EQ(rotated("rope=interleaved rotary=2"), (std::vector<double>{0.5 - 4, 2 + 1, 3, 4}));
  EXPECT_EQ(rotated("rope=half rotary=2"), (std::vector<double>{0.5 - 4, 2 + 1, 3, 4}));
}

TEST(Append, PositionsAreRowsWithTheLeftPaddingOrGiven) {
  const auto position_of = [](const std::string& words, auto change) {
    Case c("append fp32 hk=1 sk=8 d=2 snew=2 lengths rope=half rotary=2 " + words);
    c.set(REGARD_LENGTHS_K, 0, 5);
    for (int i = 0; i < 4; ++i) c.set(REGARD_K_NEW, i, i % 2 == 0 ? 1 : 0);
    for (int i = 0; i < 8; ++i) {
      c.set(REGARD_ROPE_COS, i, i);
      c.set(REGARD_ROPE_SIN, i, 0);
    }
    change(c);
    const std::vector<double> k = run(c).at(REGARD_K).value;
    return std::vector<double>{k[0], k[2]};
  };
  using Pair = std::vector<double>;
  EXPECT_EQ(position_of("", [](Case&) {}), (Pair{5, 6}));
  EXPECT_EQ(position_of("left_padding", [](Case& c) { c.set(REGARD_LEFT_PADDING, 0, 3); }), (Pair{5, 6}));
  EXPECT_EQ(position_of("positions=sequence", [](Case& c) { c.set(REGARD_POSITIONS, 0, 2); }), (Pair{2, 3}));
  EXPECT_EQ(position_of("positions=token",
                        [](Case& c) {
                          c.set(REGARD_POSITIONS, 0, 7);
                          c.set(REGARD_POSITIONS, 1, 1);
                        }),
            (Pair{7, 1}));
}

TEST(Append, QueriesAreRotatedToo) {
  const auto score_of = [](const std::string& words, std::size_t row) {
    Case c("fwd fp32 h=1 sq=2 sk=8 d=2 scale=1 snew=1 lengths lse rope=half rotary=2 rope_rows=12 " + words);
    c.set(REGARD_LENGTHS_K, 0, 0);
    if (c.problem().positions == Positions::sequence) c.set(REGARD_POSITIONS, 0, 3);
    for (int i = 0; i < 4; ++i) c.set(REGARD_Q, i, i % 2 == 0 ? 1 : 0);
    c.set(REGARD_K_NEW, 0, 1);
    c.set(REGARD_K_NEW, 1, 0);
    for (int i = 0; i < 12; ++i) {
      c.set(REGARD_ROPE_COS, i, i + 1);
      c.set(REGARD_ROPE_SIN, i, 0);
    }
    return run(c).at(REGARD_LSE).value[row];  // of one key, so the score
  };
  EXPECT_EQ(score_of("", 0), 1);
  EXPECT_EQ(score_of("", 1), 1);  // without a mask all queries are at the length
  EXPECT_EQ(score_of("mask=causal_top_left", 0), 1);
  EXPECT_EQ(score_of("mask=causal_top_left", 1), 2);
  EXPECT_EQ(score_of("positions=sequence", 1), 4 * 4);
  EXPECT_EQ(score_of("positions=sequence mask=causal_top_left", 1), 5 * 4);
}

TEST(Append, NumbersAreDividedByTheirFactor) {
  Case c("append bf16 h=2 sk=4 d=2 snew=1 lengths kv=int8 descale=head");
  c.set(REGARD_LENGTHS_K, 0, 1);
  for (int i = 0; i < 4; ++i) c.set(REGARD_K_NEW, i, 3 * i);
  c.set(REGARD_DESCALE_K, 0, 0.5);
  c.set(REGARD_DESCALE_K, 1, 4);
  EXPECT_EQ(run(c).at(REGARD_K).value, (std::vector<double>{0, 6, 1.5, 2.25}));
}

TEST(Append, FactorsOfTokensMakeTheLargestNumberThatOfTheType) {
  Case c("append fp32 h=2 sk=4 d=2 snew=1 kv=int8 descale=token");
  const double numbers[] = {-254, 127, 0, 0};
  for (int i = 0; i < 4; ++i) c.set(REGARD_K_NEW, i, numbers[i]);
  const oracle::Outputs outputs = run(c);
  EXPECT_EQ(outputs.at(REGARD_DESCALE_K).value, (std::vector<double>{2, 1}));
  EXPECT_EQ(*outputs.at(REGARD_DESCALE_K).written, (std::vector<std::int64_t>{6, 7}));
  EXPECT_EQ(outputs.at(REGARD_K).value, (std::vector<double>{-127, 63.5, 0, 0}));
  // Another factor is wrong, although the products are right.
  answer(c);
  EXPECT_EQ(c.mistakes(run(c)), "");
  auto* const factors = static_cast<float*>(c.arguments().tensor[REGARD_DESCALE_K].data);
  auto* const keys = static_cast<std::int8_t*>(c.arguments().tensor[REGARD_K].data);
  factors[6] = 4;
  keys[12] = -64;
  keys[13] = 32;
  EXPECT_NE(c.mistakes(run(c)), "");
}

void expect_same(const oracle::Output& a, const oracle::Output& b) {
  for (std::size_t i = 0; i < a.value.size(); ++i) {
    ASSERT_EQ(a.has_result(i), b.has_result(i));
    if (!a.has_result(i)) continue;
    EXPECT_EQ(a.value[i], b.value[i]) << i;
  }
}

TEST(Append, ForwardSeesWhatItHasWritten) {
  const std::string words = " b=3 hq=4 hk=2 sk=20 d=8 paged=4 pages=30 lengths mask=causal lse ";
  for (const std::string types : {"bf16", "bf16 kv=fp8 descale=head"}) {
    Case c("fwd " + types + " sq=2 snew=2" + words), after("fwd " + types + " sq=2" + words);
    const oracle::Outputs both = answer(c);
    for (const regard_role role : {REGARD_LENGTHS_Q, REGARD_Q, REGARD_K, REGARD_V, REGARD_PAGE_TABLE,
                                   REGARD_DESCALE_K, REGARD_DESCALE_V})
      for (std::int64_t i = 0; c.arguments().tensor[role].data && i < c.count(role); ++i)
        after.set(role, i, c.get(role, i));
    for (std::int64_t b = 0; b < 3; ++b) {
      const double before = c.get(REGARD_LENGTHS_K, b);
      after.set(REGARD_LENGTHS_K, b, before < 0 ? before : before + 2);
    }
    const oracle::Outputs second = run(after);
    expect_same(both.at(REGARD_O), second.at(REGARD_O));
    expect_same(both.at(REGARD_LSE), second.at(REGARD_LSE));
  }
}

// Before the call the new rows are not there yet; they count as they should have been rounded.
TEST(Append, TheOracleNeedsNoKernel) {
  Case c("fwd bf16 b=2 hq=4 hk=2 sq=2 sk=20 d=8 snew=2 paged=4 lengths kv=int8 descale=token lse");
  const oracle::Outputs before = run(c), after = answer(c);
  expect_same(before.at(REGARD_LSE), after.at(REGARD_LSE));
}

}  // namespace
}  // namespace regard::test
