// plan(problem, target): how a problem is solved. Pure: no file, no driver, no global state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel_key.h"
#include "plan/schedule.h"
#include "plan/target.h"
#include "plan/workspace.h"
#include "problem/problem.h"

namespace regard {

enum class Family : std::uint8_t { forward, split_kv, backward, appending, merging };
std::string_view word(Family);

struct Kernel;
struct FunctionSteps;
struct FunctionWords;

struct Stage {
  const Kernel* kernel = nullptr;
  KernelKey key;
  Schedule schedule;               ///< what its kernel gets in addition to the common arguments
  std::int64_t grid = 0;           ///< blocks, taken in order; none waits for one that may not have begun
  std::int64_t scratch_bytes = 0;  ///< cpu: private memory of one thread
  std::int64_t shared_bytes = 0;   ///< gpu: dynamic shared memory of one block
  int counter = WorkspaceLayout::none;  ///< gpu: the part with its work counter, 0 at its start
  bool overlaps = false;  ///< gpu: it can begin while the previous stage ends, for which it waits itself
};

struct Plan {
  Problem problem;
  const Target* target = nullptr;
  Family family = Family::forward;
  bool generic = false;       ///< by the slower kernel that takes everything
  std::vector<Stage> stages;  ///< 1 to 4, run in order
  std::int64_t splits = 1;    ///< parts of the key range
  std::int64_t split_keys = 0;
  int workers =
      1;  ///< how many blocks run at once: threads, each with its scratch, or a GPU's multiprocessors
  WorkspaceLayout workspace;
  int rotated_q = WorkspaceLayout::none;       ///< the part with the queries after rope
  int function = WorkspaceLayout::none;        ///< the part with `steps` and the tensors that they read
  std::shared_ptr<const FunctionSteps> steps;  ///< of a problem's functions, where a kernel interprets them
  int bits = WorkspaceLayout::none;    ///< the part with the bits of a mask, which the first stage writes
  int ranges = WorkspaceLayout::none;  ///< likewise, with the range of keys of each row
  std::shared_ptr<const FunctionWords> words;  ///< where words stand in for the functions of the caller
  int scratch = WorkspaceLayout::none;         ///< cpu: the part with the private memory of all threads
  double cost_seconds = 0;                     ///< the cost model's estimate
  std::int64_t asked_splits = 0;               ///< `splits`, where the candidate's name says it; else 0
};

/// An accepted candidate, for whoever chooses among them.
struct Ranked {
  std::string candidate;  ///< its name, as in Verdict
  double seconds = 0;     ///< the cost model's estimate
};

/// A caller's own choice: gets the accepted candidates, first the one that would be used without it, and
/// returns the name of one, or an empty name for the first. An error refuses the problem.
using Choose = std::function<Result<std::string>(const Problem&, const Target&, std::span<const Ranked>)>;

/// The problem as the caller gave it; `plan.problem` can have words in place of its functions.
const Problem& given_problem(const Plan&);

/// By what the functions of a problem are computed.
#define REGARD_FUNCTIONS_BY(X)                                                                  \
  X(any, "any", "by words where they say the functions, else by ranges, bits, interpreted")     \
  X(words, "words", "by words, or refused")                                                     \
  X(ranges, "ranges", "keep by ranges of keys that a stage writes, score by words, or refused") \
  X(bits, "bits", "keep by bits that a stage writes, score by words, or refused")               \
  X(interpreted, "interpreted", "interpreted, or refused")
#define REGARD_ENUMERATOR(name, word, doc) name,
enum class FunctionsBy : std::uint8_t { REGARD_FUNCTIONS_BY(REGARD_ENUMERATOR) };
#undef REGARD_ENUMERATOR
std::string_view word(FunctionsBy);
/// An empty text is `any`.
Result<FunctionsBy> functions_by(std::string_view text);

struct PlanOptions {
  int threads = 1;     ///< cpu
  std::string family;  ///< empty: any; else only candidates of this family, kernel or name; numbers of parts
                       ///< of the keys and of threads can end it (CandidateWords)
  std::vector<std::string> disabled;  ///< families or kernels that must not be used
  bool strict = false;                ///< refuse to fall back to a slower family
  std::string recorded;  ///< the candidate that was measured to be the fastest; empty: nothing is known
  Choose choose;         ///< the caller's own choice, or empty
  FunctionsBy functions = FunctionsBy::any;
  std::shared_ptr<const FunctionWords> words;  ///< what stands in for the functions; plan() sets it
};

/// What decides among accepted candidates; each takes precedence over those above it. Where a problem is
/// batch_invariant, only the order of the table does, as everything else may depend on the batch.
#define REGARD_CHOSEN_BY(X)                               \
  X(order, "order", "the order of the target's table")    \
  X(cost, "cost", "the cost model")                       \
  X(record, "record", "a tuning record: it was measured") \
  X(caller, "caller", "the function given to regard_choose_by")
#define REGARD_ENUMERATOR(name, word, doc) name,
enum class ChosenBy : std::uint8_t { REGARD_CHOSEN_BY(REGARD_ENUMERATOR) };
#undef REGARD_ENUMERATOR
std::string_view word(ChosenBy);

/// One candidate and its outcome.
struct Verdict {
  std::string candidate;  ///< its name, e.g. "cpu_decode + cpu_combine block_k=64"
  std::string stages;     ///< the name without the tile
  std::size_t rules_passed = 0;
  std::string rule;    ///< name of the rule that refused; empty when accepted
  std::string reason;  ///< why, and what would work; for an accepted one its estimated cost
  bool accepted = false, chosen = false;
  double seconds = 0;  ///< of an accepted one: its estimated cost
};

struct Explanation {
  std::string problem, target;
  std::string functions;  ///< of a problem that has some: how they are computed, and why so
  std::vector<Verdict> verdicts;
  /// The chosen plan.
  std::optional<Plan> plan;
  std::string refusal;  ///< the sentence, when nothing was accepted
  std::string bucket;   ///< of the problems that share a tuning record (plan/tuning.h)
  ChosenBy chosen_by = ChosenBy::cost;
  std::string by_cost;             ///< the candidate that the cost model, or the order, would have taken
  std::vector<Ranked> variants;    ///< of the best candidates with other numbers of parts and threads
  std::string record;              ///< the tuning record that answers (engine/tuning.h); empty: none does
  std::vector<std::string> notes;  ///< why a record or a caller's choice did not count
};

/// The best plan, or a refusal whose message names the reasons. `explanation` can be null.
Result<Plan> plan(const Problem&, const Target&, const PlanOptions&, Explanation* explanation = nullptr);

/// What is known about a plan beyond itself, for its JSON; empty members are omitted.
struct PlanFacts {
  struct OfStage {
    std::string_view tier;
    std::vector<std::string> missed;  ///< why earlier tiers do not have it: what follows "it is"
    std::string resources;            ///< of a GPU kernel, as JSON
    std::optional<double> seconds;
  };
  std::vector<OfStage> stages;
  std::string_view fallback_reason;
  std::optional<std::int64_t> workspace_bytes;  ///< also enough for the fallback
};

std::string to_json(const Plan&, const PlanFacts& = {});
std::string to_json(const Explanation&, const PlanFacts& = {});
/// Refused candidates are grouped by recipe and rule or, with `all`, have a line each.
std::string to_text(const Explanation&, bool all = false);

}  // namespace regard
