// Partial results merged into one.
#include <gtest/gtest.h>

#include <cmath>

#include "oracle/check.h"
#include "run_case.h"

namespace regard::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Merge, TwoPartsByHand) {
  Case c("merge fp32 h=1 sq=1 d=2 parts=3 lse");
  const double lse[] = {std::log(2.0f), -infinity, std::log(6.0f)}, o[] = {4, 8, NAN, NAN, 16, 0};
  for (int i = 0; i < 3; ++i) c.set(REGARD_PARTIAL_LSE, i, lse[i]);
  for (int i = 0; i < 6; ++i) c.set(REGARD_PARTIAL_O, i, o[i]);
  const oracle::Outputs outputs = run(c);
  EXPECT_NEAR(outputs.at(REGARD_LSE).value[0], std::log(8), 1e-7);
  EXPECT_NEAR(outputs.at(REGARD_O).value[0], 13, 1e-6);
  EXPECT_NEAR(outputs.at(REGARD_O).value[1], 2, 1e-6);
}

TEST(Merge, InPlaceTheOutputIsOneMorePart) {
  Case c("merge fp32 h=1 sq=1 d=1 parts=1 accumulate lse");
  c.set(REGARD_PARTIAL_LSE, 0, 0);
  c.set(REGARD_PARTIAL_O, 0, 4);
  c.set(REGARD_LSE, 0, std::log(3.0f));
  c.set(REGARD_O, 0, 8);
  EXPECT_NEAR(run(c).at(REGARD_O).value[0], 7, 1e-6);
  c.set(REGARD_PARTIAL_LSE, 0, -infinity);
  c.set(REGARD_PARTIAL_O, 0, NAN);
  EXPECT_EQ(run(c).at(REGARD_O).value[0], 8);
  const auto report = oracle::check_report(c.problem(), c.arguments(), 1);
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("without accumulate"), std::string::npos);
}

TEST(Merge, OnlyEmptyPartsAreEmpty) {
  Case c("merge bf16 b=2 h=2 sq=3 d=4 parts=2 lse");
  for (std::int64_t i = 0; i < c.count(REGARD_PARTIAL_LSE); ++i) c.set(REGARD_PARTIAL_LSE, i, -infinity);
  const oracle::Outputs outputs = run(c);
  EXPECT_EQ(outputs.at(REGARD_LSE).value, std::vector<double>(12, -infinity));
  EXPECT_EQ(outputs.at(REGARD_O).value, std::vector<double>(48, 0.0));
}

TEST(Merge, PackedTokensAfterTheLastSequenceAreNotWritten) {
  Case c("merge bf16 varlen b=2 h=2 sq=3 tq=8 d=4 parts=2 lse");
  c.set(REGARD_OFFSETS_Q, 1, 3);
  c.set(REGARD_OFFSETS_Q, 2, 5);
  const oracle::Outputs outputs = run(c);
  const oracle::Output& o = outputs.at(REGARD_O);
  for (std::size_t i = 0; i < o.value.size(); ++i) EXPECT_EQ(o.has_result(i), i < 5 * 2 * 4) << i;
}

/// The parts of the keys, each an attention of its own, give the whole.
TEST(Merge, PartsOfTheKeysGiveTheWhole) {
  Case whole("fwd fp32 b=2 h=2 sq=5 sk=12 d=8 lse"), merge("merge fp32 b=2 h=2 sq=5 d=8 parts=3 lse");
  for (int part = 0; part < 3; ++part) {
    Case some("fwd fp32 b=2 h=2 sq=5 sk=4 d=8 lse");
    for (std::int64_t i = 0; i < some.count(REGARD_Q); ++i) some.set(REGARD_Q, i, whole.get(REGARD_Q, i));
    for (const regard_role role : {REGARD_K, REGARD_V})
      for (std::int64_t i = 0; i < some.count(role); ++i)
        some.set(role, i, whole.get(role, (i / 64 * 12 + part * 4) * 16 + i % 64));
    const oracle::Outputs outputs = run(some);
    const auto& o = outputs.at(REGARD_O).value;
    const auto& lse = outputs.at(REGARD_LSE).value;
    for (std::size_t i = 0; i < o.size(); ++i)
      merge.set(REGARD_PARTIAL_O, part * static_cast<std::int64_t>(o.size()) + static_cast<std::int64_t>(i),
                o[i]);
    for (std::int64_t i = 0; i < 20; ++i) {  // [b, hq, sq] becomes [hq, b * sq]
      const std::int64_t batch = i / 10, head = i / 5 % 2, row = i % 5;
      merge.set(REGARD_PARTIAL_LSE, (part * 2 + head) * 10 + batch * 5 + row,
                lse[static_cast<std::size_t>(i)]);
    }
  }
  const oracle::Outputs a = run(whole), b = run(merge);
  for (const regard_role role : {REGARD_O, REGARD_LSE})
    for (std::size_t i = 0; i < a.at(role).value.size(); ++i)
      EXPECT_NEAR(a.at(role).value[i], b.at(role).value[i], 1e-6) << role_name(role) << i;
}

TEST(Merge, AcceptsTheRoundedAnswerAndMissesNoLostPart) {
  for (const char* text :
       {"merge fp32 b=2 h=2 sq=30 d=8 parts=4 lse", "merge bf16 b=2 h=3 sq=30 d=8 parts=9 lse out=fp32",
        "merge fp16 varlen b=3 h=2 sq=30 tq=70 d=8 parts=2 lse",
        "merge bf16 h=2 sq=30 d=8 parts=4 accumulate lse"}) {
    Case c(text);
    const oracle::Outputs expected = run(c);
    const auto write = [&](const oracle::Outputs& outputs) {
      for (const auto& [role, output] : outputs)
        for (std::size_t i = 0; i < output.value.size(); ++i)
          if (output.has_result(i)) c.set(role, static_cast<std::int64_t>(i), output.value[i]);
    };
    Case less(text);
    for (std::int64_t i = 0; i < less.count(REGARD_PARTIAL_LSE) / less.problem().parts; ++i)
      less.set(REGARD_PARTIAL_LSE, i, -infinity);
    write(run(less));
    EXPECT_NE(c.mistakes(expected), "") << text;
    write(expected);
    EXPECT_EQ(c.mistakes(expected), "") << text;
  }
}

}  // namespace
}  // namespace regard::test
