// A recipe makes one kind of plan from a tile of the target's table. The list in recipes.cpp is everything
// that Regard can do.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel.h"
#include "plan/plan.h"

namespace regard {

struct Recipe {
  std::string_view name;  ///< "decode": also the name for REGARD_DISABLE and the option `family`
  Family family;
  Pass pass;
  const Kernel* main;  ///< one candidate per tile of this kernel
  /// Grid, scratch and workspace, for a problem that the rules accept.
  Result<Plan> (*make)(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
  std::vector<const Kernel*> stages;  ///< in the order in which they run; the last one can be omitted
};

/// In order of precedence: where tuning and cost do not decide, the first one wins.
std::span<const Recipe> recipes();

/// Whether anything can run on the target.
bool has_kernels(const Target&);
bool has_generic_kernel(Pass, const Target&);
/// The first target that has kernels for the pass; empty: none.
std::string_view first_target_for(Pass);

/// For people: "cpu_decode + cpu_combine".
std::string stages_of(const Recipe&);

/// What the option `family` and REGARD_DISABLE can name: recipes, families and kernels.
std::span<const std::string_view> recipe_words();
bool matches(const Recipe&, std::string_view word);

/// The slower recipe that takes everything.
inline bool is_generic(const Recipe& recipe) {
  return recipe.main->is_generic();
}

/// Whether parts of the keys are merged after the main stage.
inline bool splits_keys(const Recipe& recipe) {
  return recipe.family == Family::split_kv;
}

struct Candidate {
  const Recipe* recipe;
  const Target::Tile* tile;
  /// Of the plan, without another kernel; 0: the plan decides.
  std::int64_t splits = 0;  ///< parts of the keys
  int threads = 0;          ///< cpu: not more than the caller allows

  const Kernel& kernel() const { return *recipe->main; }
};

/// What a caller names candidates by: "cpu_decode splits=8 threads=2".
struct CandidateWords {
  std::string words;  ///< for `matches`
  std::int64_t splits = 0;
  int threads = 0;
};
Result<CandidateWords> parse_candidate_words(std::string_view);

/// Whether it is the candidate's whole name (name_of), with its numbers in any order.
bool is_name_of(const Candidate&, std::string_view name);

/// Whether all words, separated by spaces, apply to it: names of its recipe, or numbers of its tile, 0 where
/// it has none ("sm90_forward cluster=2"); or whether they are its whole name (name_of) without its numbers
/// of parts and threads.
bool matches(const Candidate&, std::string_view words);

/// In table order: recipe by recipe, tile by tile.
std::vector<Candidate> candidates(Pass, const Target&);

/// "cpu_decode + cpu_combine block_k=64", followed by its numbers of parts and threads, if it has any.
std::string name_of(const Candidate&);

}  // namespace regard
