// From a problem to a plan: list the candidates, ask the rules, size the plans, rank them.
#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>

#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"
#include "plan/cost.h"
#include "plan/function_levels.h"
#include "plan/function_steps.h"
#include "plan/function_words.h"
#include "plan/gpu_rows.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"
#include "plan/refusal.h"
#include "plan/rules.h"
#include "plan/tuning.h"
#include "problem/functions.h"

namespace regard {
namespace {

/// Whether it is the whole name of a candidate.
bool is_candidate(std::string_view name, Pass pass, const Target& target) {
  return std::ranges::any_of(candidates(pass, target),
                             [name](const Candidate& candidate) { return is_name_of(candidate, name); });
}

Status known_words(const PlanOptions& options, Pass pass, const Target& target) {
  const auto check = [&](std::string_view names) -> Status {
    if (names.empty() || is_candidate(names, pass, target)) return {};
    for (const std::string_view name : split(names, " ")) {
      Algorithm ignored;
      const bool without_number = std::ranges::find(algorithm_names(), name) != algorithm_names().end();
      if (name.find('=') != std::string_view::npos || without_number) {
        if (Status status = read_algorithm_word(name, ignored); !status) return status;
        continue;
      }
      const auto words = recipe_words();
      if (std::find(words.begin(), words.end(), name) == words.end())
        return invalid(
            fmt::format("unknown family or kernel {}{}", in_quotes(name), suggestion(name, words)));
    }
    return {};
  };
  if (Status status = check(options.family); !status) return status;
  for (const std::string& name : options.disabled) {
    if (Status status = check(name); !status)
      return fail(status.error().kind, "REGARD_DISABLE: " + status.error().message);
  }
  return {};
}

void refuse(Verdict& verdict, Refused refused) {
  verdict.accepted = verdict.chosen = false;
  verdict.rule = refused.rule;
  verdict.reason = std::move(refused.reason);
  verdict.rules_passed = refused.passed;
}

/// A candidate during planning: the rules' verdict, then its plan.
struct Trial {
  Candidate candidate;
  Verdict verdict;
  std::optional<Plan> plan;
};

Result<Plan> make_plan(const Problem& problem, const Target& target, const PlanOptions& options,
                       const Candidate& candidate) {
  const Recipe& recipe = *candidate.recipe;
  Result<Plan> made = recipe.make(problem, target, *candidate.tile, options);
  if (!made) return made;
  made->family = recipe.family;
  made->generic = is_generic(recipe);
  made->cost_seconds = cost_seconds(*made);
  return made;
}

/// Why a plan cannot have the numbers of a candidate; nothing where it can.
Refusal impossible_numbers(const Candidate& candidate, const Problem& problem, const Target& target,
                           const PlanOptions& options) {
  const std::int64_t splits = candidate.splits, threads = candidate.threads;
  if (threads > 0 && !target.on_cpu())
    return fmt::format("threads={} is only for CPUs; leave it out", threads);
  if (threads > options.threads)
    return fmt::format("threads={} is above the {} that the call allows", threads, options.threads);
  if (splits == 0) return {};
  if (problem.splits != 0 && problem.splits != splits)
    return fmt::format("splits={} contradicts splits={} of the problem; leave one out", splits,
                       problem.splits);
  if (problem.batch_invariant && splits > 1)
    return fmt::format("splits={} does not go with batch_invariant, which cuts the keys itself", splits);
  if (splits > most_splits) return fmt::format("splits={} is too many; use 1 to {}", splits, most_splits);
  const std::int64_t least = target.on_gpu() ? parts_of_long_rows(problem) : 1;
  if (splits < least)
    return fmt::format("its sums would lose digits in {} parts of the keys; {} are enough", splits, least);
  return {};
}

Trial try_candidate(const Problem& given, const Target& target, const PlanOptions& given_options,
                    const Candidate& candidate) {
  Trial trial{candidate, {}, {}};
  if (Refusal refusal = impossible_numbers(candidate, given, target, given_options)) {
    refuse(trial.verdict, {"numbers_fit", std::move(*refusal), 0});
    return trial;
  }
  std::optional<Problem> with_splits;
  if (candidate.splits > 0) (with_splits = given)->splits = candidate.splits;
  std::optional<PlanOptions> with_threads;
  if (candidate.threads > 0) (with_threads = given_options)->threads = candidate.threads;
  const Problem& problem = with_splits ? *with_splits : given;
  const PlanOptions& options = with_threads ? *with_threads : given_options;
  const Question question{problem, target, candidate, options};
  constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
  if (std::optional<Refused> refused = first_refusal(question)) {
    refuse(trial.verdict, std::move(*refused));
    return trial;
  }
  Result<Plan> made = make_plan(problem, target, options, candidate);
  if (!made) {
    refuse(trial.verdict, {"sizes_fit", made.error().message, all});
    return trial;
  }
  trial.plan = std::move(*made);
  trial.plan->problem.splits = given.splits;
  trial.plan->asked_splits = candidate.splits;
  trial.verdict.accepted = true;
  return trial;
}

/// Details that only explanations need.
void tell(Trial& trial) {
  trial.verdict.stages = stages_of(*trial.candidate.recipe);
  if (!trial.plan) return;
  trial.verdict.seconds = trial.plan->cost_seconds;
  trial.verdict.reason = fmt::format("about {:.3g} ms", trial.plan->cost_seconds * 1e3);
}

/// The generic kernels are used only where no other can be, so that what is compiled, and how fast it runs,
/// does not depend on estimates for tiny problems.
bool cheaper(const Trial& a, const Trial& b) {
  const bool generic_a = is_generic(*a.candidate.recipe), generic_b = is_generic(*b.candidate.recipe);
  return generic_a != generic_b ? generic_b : a.plan->cost_seconds < b.plan->cost_seconds;
}

/// In the order of the table. Others, with numbers of their own, may follow; pointers to trials stay valid.
using Trials = std::deque<Trial>;

/// What was decided among the accepted candidates.
struct Decision {
  Trial* best = nullptr;     ///< null: nothing was accepted
  Trial* by_cost = nullptr;  ///< without a record and a caller's choice
  ChosenBy by = ChosenBy::cost;
  std::vector<std::string> notes;
};

Trial* named(Trials& trials, std::string_view name) {
  const auto found =
      std::ranges::find_if(trials, [name](const Trial& trial) { return is_name_of(trial.candidate, name); });
  return found == trials.end() ? nullptr : &*found;
}

/// The accepted candidate of this name; one with numbers of its own is tried, and added.
Trial* accepted(Trials& trials, std::string_view name, const Problem& problem, const Target& target,
                const PlanOptions& options) {
  Trial* found = named(trials, name);
  if (found == nullptr) {
    const Result<CandidateWords> words = parse_candidate_words(name);
    Trial* const plain = words ? named(trials, words->words) : nullptr;
    if (plain == nullptr) return nullptr;
    Candidate candidate = plain->candidate;
    candidate.splits = words->splits;
    candidate.threads = words->threads;
    found = &trials.emplace_back(try_candidate(problem, target, options, candidate));
  }
  return found->plan ? found : nullptr;
}

/// Says that a caller chose a name which none of the accepted candidates has: the beginning of a sentence.
std::string unknown_choice(std::string_view name, const Problem& problem, const Target& target,
                           const std::vector<Ranked>& ranked) {
  std::vector<std::string_view> names;
  for (const Ranked& one : ranked) names.push_back(one.candidate);
  return fmt::format("the caller's choice {} is not a candidate for '{}' on {}, whose candidates are {}",
                     in_quotes(name), print(problem), target.name, fmt::join(names, ", "));
}

/// Asks the caller. An unknown answer gives a warning, and with `strict` an error.
Status ask_caller(const Problem& problem, const Target& target, const PlanOptions& options, Trials& trials,
                  const std::vector<Trial*>& by_cost, Decision& decision) {
  std::vector<Ranked> ranked{{name_of(decision.best->candidate), decision.best->plan->cost_seconds}};
  for (const Trial* trial : by_cost)
    if (trial != decision.best) ranked.push_back({name_of(trial->candidate), trial->plan->cost_seconds});
  const Result<std::string> answer = options.choose(problem, target, ranked);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->empty()) return {};
  if (Trial* const chosen = accepted(trials, *answer, problem, target, options)) {
    decision.best = chosen;
    decision.by = ChosenBy::caller;
    return {};
  }
  const std::string unknown = unknown_choice(*answer, problem, target, ranked);
  if (options.strict) return refused(unknown + "; with REGARD_STRICT no other is used instead");
  decision.notes.push_back(unknown + "; the first candidate is used");
  warn_once(decision.notes.back());
  return {};
}

/// A candidate that exists nowhere is a mistake in the record, or it is of another version: also a warning.
void note_unused_record(Trials& trials, std::string_view recorded, const Target& target, Decision& decision) {
  const Result<CandidateWords> words = parse_candidate_words(recorded);
  if (words && named(trials, words->words) != nullptr) {
    decision.notes.push_back(
        fmt::format("the recorded candidate {} is not accepted for this problem", recorded));
    return;
  }
  decision.notes.push_back(
      fmt::format("the tuning records name {}, which is no candidate of this Regard on {}; tune again",
                  in_quotes(recorded), target.name));
  warn_once(decision.notes.back());
}

/// Of the accepted ones: by the caller, by tuning record, by cost, by table order. With batch_invariant only
/// the order counts.
Result<Decision> decide(const Problem& problem, const Target& target, const PlanOptions& options,
                        Trials& trials) {
  std::vector<Trial*> ranked;
  for (Trial& trial : trials)
    if (trial.plan) ranked.push_back(&trial);
  if (ranked.empty()) return Decision{};
  if (problem.batch_invariant) return Decision{ranked.front(), ranked.front(), ChosenBy::order, {}};
  std::ranges::stable_sort(ranked, [](const Trial* a, const Trial* b) { return cheaper(*a, *b); });
  Decision decision{ranked.front(), ranked.front(), ChosenBy::cost, {}};
  if (!options.recorded.empty()) {
    if (Trial* const recorded = accepted(trials, options.recorded, problem, target, options)) {
      decision.best = recorded;
      decision.by = ChosenBy::record;
    } else {
      note_unused_record(trials, options.recorded, target, decision);
    }
  }
  if (options.choose) {
    if (Status status = ask_caller(problem, target, options, trials, ranked, decision); !status)
      return tl::unexpected(status.error());
  }
  return decision;
}

std::vector<const Verdict*> verdicts_of(const Trials& trials) {
  std::vector<const Verdict*> verdicts;
  for (const Trial& trial : trials) verdicts.push_back(&trial.verdict);
  return verdicts;
}

/// Why the faster kernels refused, for a strict caller.
std::string strict_reason(const Trials& trials) {
  std::vector<const Verdict*> verdicts;
  for (const Trial& trial : trials) {
    if (!trial.verdict.accepted && !is_generic(*trial.candidate.recipe)) verdicts.push_back(&trial.verdict);
  }
  return "REGARD_STRICT forbids the slower generic kernel; " + summarize(verdicts);
}

/// The candidates whose estimates are at most twice the least one, with half and twice as many parts of the
/// keys, and with a half and a quarter of the threads: what `regard tune` measures too, as the estimates are
/// least certain there.
std::vector<Ranked> variants_of(const Trials& trials, const Problem& problem, const Target& target,
                                const PlanOptions& options, const Trial& by_cost) {
  constexpr double near = 2;
  std::vector<Ranked> variants;
  const auto add = [&](const Candidate& candidate) {
    const Trial trial = try_candidate(problem, target, options, candidate);
    if (!trial.plan || (candidate.splits > 0 && trial.plan->splits != candidate.splits)) return;
    variants.push_back({name_of(candidate), trial.plan->cost_seconds});
  };
  for (const Trial& trial : trials) {
    const Candidate& plain = trial.candidate;
    if (!trial.plan || is_generic(*plain.recipe) || plain.splits > 0 || plain.threads > 0) continue;
    if (trial.plan->cost_seconds > near * by_cost.plan->cost_seconds) continue;
    Candidate other = plain;
    if (splits_keys(*plain.recipe) && problem.splits == 0) {
      for (const std::int64_t splits : {trial.plan->splits / 2, trial.plan->splits * 2})
        if ((other.splits = splits) > 1) add(other);
      other.splits = 0;
    }
    if (!target.on_cpu()) continue;
    for (const int threads : {options.threads / 2, options.threads / 4})
      if ((other.threads = threads) > 0) add(other);
  }
  std::ranges::stable_sort(variants, {}, &Ranked::seconds);
  return variants;
}

Result<Plan> plan_batch(const Problem& problem, const Target& target, const PlanOptions& given,
                        Explanation* explanation) {
  const Result<CandidateWords> words = parse_candidate_words(given.family);
  if (!words) return tl::unexpected(words.error());
  PlanOptions options = given;
  options.family = words->words;
  if (Status status = known_words(options, problem.pass, target); !status)
    return tl::unexpected(status.error());

  Trials trials;
  for (Candidate& candidate : candidates(problem.pass, target)) {
    candidate.splits = words->splits;
    candidate.threads = words->threads;
    trials.push_back(try_candidate(problem, target, options, candidate));
  }
  Result<Decision> decision = decide(problem, target, options, trials);
  if (!decision) return tl::unexpected(decision.error());
  Trial* best = decision->best;
  const bool asked_for = !given.family.empty() || options.functions == FunctionsBy::interpreted ||
                         decision->by == ChosenBy::caller || decision->by == ChosenBy::record;
  const bool too_slow =
      best != nullptr && options.strict && is_generic(*best->candidate.recipe) && !asked_for;
  if (best != nullptr && !too_slow && explanation == nullptr) return std::move(*best->plan);
  std::ranges::for_each(trials, tell);
  if (too_slow) {
    refuse(best->verdict, {"strict_allows", strict_reason(trials), 0});
    best = nullptr;
  }
  if (best != nullptr) best->verdict.chosen = true;

  const std::string refusal = best != nullptr ? "" : refusal_of(problem, target, verdicts_of(trials));
  if (explanation != nullptr) {
    *explanation = {.problem = print(problem),
                    .target = target.name,
                    .refusal = refusal,
                    .bucket = print(bucket_of(problem))};
    explanation->notes = std::move(decision->notes);
    if (best != nullptr) {
      explanation->plan = best->plan;
      explanation->chosen_by = decision->by;
      explanation->by_cost = name_of(decision->by_cost->candidate);
      if (given.family.empty() && !problem.batch_invariant)
        explanation->variants = variants_of(trials, problem, target, options, *decision->by_cost);
    }
    for (Trial& trial : trials) {
      trial.verdict.candidate = name_of(trial.candidate);
      explanation->verdicts.push_back(std::move(trial.verdict));
    }
  }
  if (best == nullptr) return refused(refusal);
  return std::move(*best->plan);
}

Result<Plan> plan_sequences(const Problem& problem, const Target& target, const PlanOptions& options,
                            Explanation* explanation) {
  if (problem.b > 0) return plan_batch(problem, target, options, explanation);
  // Without sequences nothing is launched; kernels are chosen as for one.
  Problem of_one = problem;
  of_one.b = 1;
  const auto without_batch = [](Plan& planned) { planned.problem.b = 0, planned.workspace = {}; };
  Result<Plan> planned = plan_batch(of_one, target, options, explanation);
  if (planned) without_batch(*planned);
  if (explanation != nullptr && explanation->plan) without_batch(*explanation->plan);
  if (explanation != nullptr && !explanation->problem.empty()) explanation->problem = print(problem);
  return planned;
}

Result<Plan> plan_interpreted(const Problem& problem, const Target& target, const PlanOptions& options,
                              Explanation* explanation, std::string_view why) {
  Result<Plan> planned = plan_sequences(problem, target, options, explanation);
  if (explanation == nullptr) return planned;
  explanation->functions =
      fmt::format("its functions are not planned as {}; only generic kernels interpret them", why);
  if (const Result<FunctionSteps> steps = function_steps(problem))
    explanation->functions += ": " + operations_by_level(*steps);
  return planned;
}

Result<Plan> plan_words(FunctionWords found, const Target& target, PlanOptions options,
                        Explanation* explanation, std::string_view why_not_cheaper) {
  options.words = std::make_shared<const FunctionWords>(std::move(found));
  const FunctionWords& words = *options.words;
  Result<Plan> planned = plan_sequences(words.problem, target, options, explanation);
  if (explanation == nullptr || explanation->problem.empty()) return planned;
  explanation->problem = print(words.functions);
  explanation->functions = fmt::format("its functions are planned as words: {}", print(words.problem));
  if (words.ranges || words.mask)
    explanation->functions +=
        fmt::format("; its first stage writes the {}{}{}", words.ranges ? "ranges" : "bits",
                    why_not_cheaper.empty() ? ""
                    : words.ranges          ? ", as words alone do not do: "
                                            : ", as ranges do not do: ",
                    why_not_cheaper);
  if (const std::optional<FunctionSteps>& written = words.ranges ? words.ranges : words.mask)
    explanation->functions += "; " + operations_by_level(*written);
  if (words.tensor) explanation->functions += "; " + condition_of(words, target.on_cpu());
  return planned;
}

}  // namespace

std::string_view word(FunctionsBy by) {
  switch (by) {
#define REGARD_WORD(name, word, doc) \
  case FunctionsBy::name:            \
    return word;
    REGARD_FUNCTIONS_BY(REGARD_WORD)
#undef REGARD_WORD
  }
  return "?";
}

Result<FunctionsBy> functions_by(std::string_view text) {
  std::vector<std::string_view> words;
#define REGARD_WORD(name, word, doc)                          \
  if (text == word || text.empty()) return FunctionsBy::name; \
  words.push_back(word);
  REGARD_FUNCTIONS_BY(REGARD_WORD)
#undef REGARD_WORD
  return invalid(fmt::format("functions={} is not known{}", in_quotes(text), suggestion(text, words)));
}

const Problem& given_problem(const Plan& plan) {
  return plan.words != nullptr ? plan.words->functions : plan.problem;
}

std::string_view word(ChosenBy by) {
  switch (by) {
#define REGARD_WORD(name, word, doc) \
  case ChosenBy::name:               \
    return word;
    REGARD_CHOSEN_BY(REGARD_WORD)
#undef REGARD_WORD
  }
  return "?";
}

std::string_view word(Family family) {
  switch (family) {
    case Family::forward:
      return "forward";
    case Family::split_kv:
      return "split_kv";
    case Family::backward:
      return "backward";
    case Family::appending:
      return "append";
    case Family::merging:
      return "merge";
  }
  return "?";
}

Result<Plan> plan(const Problem& problem, const Target& target, const PlanOptions& options,
                  Explanation* explanation) {
  if (Status status = validate(problem); !status) return tl::unexpected(status.error());
  if (!has_function(problem)) {
    if (options.functions == FunctionsBy::any) return plan_sequences(problem, target, options, explanation);
    return invalid(fmt::format("functions={} is for a problem with score or keep; leave it out",
                               word(options.functions)));
  }
  if (options.functions == FunctionsBy::interpreted)
    return plan_interpreted(problem, target, options, explanation, "words: functions=interpreted");
  std::string last, all;  // why not
  for (const auto& [by, find] : ways_in_words) {
    if (options.functions != FunctionsBy::any && options.functions != by) continue;
    Result<FunctionWords> found = find(problem);
    if (found) return plan_words(std::move(*found), target, options, explanation, last);
    last = found.error().message;
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; as ", word(by), last);
  }
  if (options.functions == FunctionsBy::any)
    return plan_interpreted(problem, target, options, explanation, all);
  return refused(
      fmt::format("functions={} is not possible: {}; leave it out", word(options.functions), last));
}

}  // namespace regard
