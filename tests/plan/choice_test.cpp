// What decides among the candidates of a problem: the caller, a tuning record, the cost model, the order.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/recipe.h"

namespace regard {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::SizeIs;

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
  // With its numbers in any order.
  for (const char* name :
       {"cpu_decode + cpu_combine pack_gqa=4 block_k=64", "cpu_forward block_q=512 block_k=256"})
    EXPECT_THAT(chosen(explained({.threads = 2, .family = name})), testing::AnyOf(of_4, forward)) << name;
  EXPECT_EQ(chosen(explained({.threads = 4, .family = "threads=2 cpu_decode splits=16 pack_gqa=4"})),
            chosen(explained({.threads = 4, .family = "cpu_decode pack_gqa=4 splits=16 threads=2"})));
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

std::vector<std::string> variants_of(const Explanation& explanation) {
  std::vector<std::string> names;
  for (const Ranked& variant : explanation.variants) names.push_back(variant.candidate);
  return names;
}

TEST(Choice, ThereAreVariantsWithOtherNumbersOfPartsAndThreads) {
  const Explanation explanation = explained({.threads = 4});
  const auto named = [](std::string_view numbers) { return fmt::format("{} {}", of_4, numbers); };
  ASSERT_EQ(explanation.plan->splits, 4);
  EXPECT_THAT(variants_of(explanation),
              IsSupersetOf({named("splits=2"), named("splits=8"), named("threads=2"), named("threads=1")}));
  EXPECT_THAT(variants_of(explanation), Each(HasSubstr("cpu_decode")));  // forward is far slower
  EXPECT_TRUE(std::ranges::is_sorted(explanation.variants, {}, &Ranked::seconds));
  EXPECT_THAT(to_text(explanation, true), HasSubstr("variant  " + named("splits=8") + ": about "));
  EXPECT_THAT(to_json(explanation), HasSubstr(R"("variants":[{"candidate":")"));
  // Where the caller has decided there are none.
  EXPECT_THAT(variants_of(explained({.threads = 4, .family = "cpu_decode"})), IsEmpty());
  EXPECT_THAT(variants_of(explained({.threads = 1}, *parse(print(decode) + " splits=3"))), IsEmpty());
  EXPECT_THAT(variants_of(explained({.threads = 4}, *parse(print(decode) + " batch_invariant"))), IsEmpty());
  // A GPU has no number of threads.
  Explanation on_gpu;
  ASSERT_TRUE(plan(decode, **find_target("sm_90a"), {}, &on_gpu));
  EXPECT_THAT(variants_of(on_gpu), AllOf(SizeIs(2), Each(HasSubstr("splits="))));
}

TEST(Choice, ARecordOrACallerCanNameAVariant) {
  const std::string variant = fmt::format("{} splits=16 threads=2", of_8);
  for (const PlanOptions& options :
       {PlanOptions{.threads = 4, .recorded = variant},
        PlanOptions{.threads = 4, .choose = answering(variant)}, PlanOptions{.threads = 4, .family = variant},
        PlanOptions{.threads = 4, .family = "decode pack_gqa=8 splits=16 threads=2"}}) {
    const Explanation explanation = explained(options);
    EXPECT_EQ(chosen(explanation), variant);
    ASSERT_TRUE(explanation.plan);
    EXPECT_EQ(explanation.plan->splits, 16);
    EXPECT_EQ(explanation.plan->workers, 2);
    EXPECT_EQ(explanation.plan->problem, decode);  // which does not say splits
  }
  EXPECT_EQ(explained({.threads = 4, .recorded = variant}).by_cost, of_4);
}

TEST(Choice, ImpossibleNumbersAreRefused) {
  const auto refusal = [](const std::string& family, const Problem& problem = decode, int threads = 4) {
    return explained({.threads = threads, .family = family}, problem).refusal;
  };
  EXPECT_THAT(refusal("cpu_decode threads=8"), HasSubstr("threads=8 is above the 4 that the call allows"));
  EXPECT_THAT(refusal("cpu_decode splits=129"), HasSubstr("splits=129 is too many; use 1 to 128"));
  EXPECT_THAT(refusal("cpu_decode splits=3", *parse(print(decode) + " splits=4")),
              HasSubstr("splits=3 contradicts splits=4 of the problem; leave one out"));
  EXPECT_THAT(refusal("cpu_forward splits=2", *parse("fwd bf16 h=4 s=256 d=64 dropout=0.5 dropout_mask")),
              HasSubstr("splits=2 was asked for"));
  EXPECT_THAT(refusal("decode splits=2", *parse(print(decode) + " batch_invariant")),
              HasSubstr("splits=2 does not go with batch_invariant"));
  const Problem long_rows = *parse("fwd fp32 hq=4 hk=4 sq=1 sk=65536 d=64");
  const auto on_gpu = plan(long_rows, **find_target("sm_90a"), {.family = "forward_split splits=2"});
  ASSERT_FALSE(on_gpu);
  EXPECT_THAT(on_gpu.error().message,
              HasSubstr("its sums would lose digits in 2 parts of the keys; 8 are enough"));
  EXPECT_THAT(plan(decode, **find_target("sm_90a"), {.family = "decode threads=2"}).error().message,
              HasSubstr("threads=2 is only for CPUs"));
  for (const char* family : {"cpu_decode splits=0", "cpu_decode threads=two", "splits= cpu_decode"})
    EXPECT_FALSE(plan(decode, amx(), {.family = family})) << family;
  EXPECT_THAT(plan(decode, amx(), {.family = "cpu_decode splits=x"}).error().message,
              HasSubstr("'splits=x' needs a positive whole number, e.g. splits=4"));
}

}  // namespace
}  // namespace regard
