// What decides among the candidates of a problem: the caller, a tuning record, the cost model, the order.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/recipe.h"

namespace regard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Target& amx() {
  return **find_target("cpu-amx");
}
const Problem decode = *parse("fwd bf16 b=1 hq=32 hk=8 sq=1 sk=8192 d=128");
constexpr const char* of_4 = "cpu_decode + cpu_combine block_k=64 pack_gqa=4";
constexpr const char* of_8 = "cpu_decode + cpu_combine block_k=64 pack_gqa=8";
constexpr const char* forward = "cpu_forward block_k=256 block_q=512";

Explanation explained(const PlanOptions& options, const Problem& problem = decode) {
  Explanation explanation;
  (void)plan(problem, amx(), options, &explanation);
  return explanation;
}

std::string chosen(const Explanation& explanation) {
  for (const Verdict& verdict : explanation.verdicts)
    if (verdict.chosen) return verdict.candidate;
  return "";
}

Choose answering(std::string name) {
  return [name](const Problem&, const Target&, std::span<const Ranked>) { return Result<std::string>(name); };
}

TEST(Choice, ACandidateIsNamedWhole) {
  for (const char* name : {of_4, of_8, forward})
    EXPECT_EQ(chosen(explained({.threads = 2, .family = name})), name);
  EXPECT_THAT(explained({.threads = 2, .family = "cpu_decode + cpu_combine block_k=63"}).problem, "");
}

TEST(Choice, TheCallerSeesTheRankedCandidates) {
  std::vector<std::string> names;
  std::vector<double> seconds;
  const Choose choose = [&](const Problem& problem, const Target& target, std::span<const Ranked> ranked) {
    EXPECT_EQ(problem, decode);
    EXPECT_EQ(target.name, "cpu-amx");
    for (const Ranked& one : ranked) {
      names.push_back(one.candidate);
      seconds.push_back(one.seconds);
    }
    return Result<std::string>("");
  };
  const Explanation explanation = explained({.threads = 2, .choose = choose});
  EXPECT_THAT(names, ElementsAre(of_4, of_8, "cpu_decode + cpu_combine block_k=64 pack_gqa=16", forward,
                                 "cpu_generic_forward"));
  EXPECT_TRUE(std::ranges::is_sorted(seconds));
  EXPECT_EQ(chosen(explanation), of_4);
  EXPECT_EQ(explanation.chosen_by, ChosenBy::cost);
  EXPECT_EQ(explanation.by_cost, of_4);
}

TEST(Choice, TheCallerComesBeforeARecordAndThatBeforeTheCostModel) {
  const Explanation by_record = explained({.threads = 2, .recorded = of_8});
  EXPECT_EQ(chosen(by_record), of_8);
  EXPECT_EQ(by_record.chosen_by, ChosenBy::record);
  EXPECT_EQ(by_record.by_cost, of_4);
  std::string first;
  const Choose choose = [&](const Problem&, const Target&, std::span<const Ranked> ranked) {
    first = ranked.front().candidate;
    return Result<std::string>(forward);
  };
  const Explanation by_caller = explained({.threads = 2, .recorded = of_8, .choose = choose});
  EXPECT_EQ(first, of_8);
  EXPECT_EQ(chosen(by_caller), forward);
  EXPECT_EQ(by_caller.chosen_by, ChosenBy::caller);
  EXPECT_THAT(to_text(by_caller),
              HasSubstr("chosen by the caller; the cost model would take " + std::string(of_4)));
}

TEST(Choice, AnUnknownOneIsNotUsedAndStrictRefusesIt) {
  testing::internal::CaptureStderr();
  const Explanation explanation = explained({.threads = 2, .choose = answering("cpu_froward")});
  EXPECT_EQ(chosen(explanation), of_4);
  EXPECT_THAT(explanation.notes,
              ElementsAre(HasSubstr("the caller's choice 'cpu_froward' is not a candidate")));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "regard: " + explanation.notes[0] + "\n");
  const Result<Plan> strict =
      plan(decode, amx(), {.threads = 2, .strict = true, .choose = answering("cpu_froward")});
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().kind, ErrorKind::refused);
  EXPECT_THAT(strict.error().message, HasSubstr(of_4));
}

TEST(Choice, ARecordOfACandidateThatRulesRefuseIsANote) {
  const Explanation explanation =
      explained({.threads = 2, .recorded = "cpu_decode + cpu_combine block_k=64 pack_gqa=1"});
  EXPECT_EQ(chosen(explanation), of_4);
  EXPECT_EQ(explanation.chosen_by, ChosenBy::cost);
  EXPECT_THAT(explanation.notes, ElementsAre(HasSubstr("pack_gqa=1 is not accepted for this problem")));
}

TEST(Choice, AFailureOfTheCallersFunctionIsThatOfThePlan) {
  const Choose failing = [](const Problem&, const Target&, std::span<const Ranked>) -> Result<std::string> {
    return refused("no choice today");
  };
  const Result<Plan> made = plan(decode, amx(), {.threads = 2, .choose = failing});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "no choice today");
}

TEST(Choice, TheCallerMayTakeTheGenericKernelsOfAStrictProgram) {
  const Explanation explanation =
      explained({.threads = 2, .strict = true, .choose = answering("cpu_generic_forward")});
  EXPECT_EQ(chosen(explanation), "cpu_generic_forward");
}

TEST(Choice, ABatchInvariantPlanDependsOnNothingThatMayDependOnTheBatch) {
  const Problem invariant = *parse("fwd bf16 b=1 hq=32 hk=8 sq=1 sk=8192 d=128 batch_invariant");
  const Explanation alone = explained({.threads = 2}, invariant);
  const Explanation explanation =
      explained({.threads = 2, .recorded = of_8, .choose = answering(forward)}, invariant);
  EXPECT_EQ(chosen(explanation), chosen(alone));
  EXPECT_EQ(explanation.chosen_by, ChosenBy::order);
}

}  // namespace
}  // namespace regard
