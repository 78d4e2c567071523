#include "plan/variant.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "plan/recipe.h"
#include "plan/refusal.h"
#include "plan/stage.h"

namespace regard {

Problem example_of(const Signature& signature) {
  Problem problem;
  problem.b = problem.hq = problem.hk = 2;
  problem.sq = problem.sk = 64;
  if (signature.pass == Pass::append) problem.snew = 1;
  // A window that hides something, also of one query: the kernel is one with a mask.
  if (signature.mask == Mask::window || signature.mask == Mask::window_top_left)
    problem.window_left = problem.window_right = 0;
#define REGARD_COPY_SIGNATURE(name) problem.name = signature.name;
#define REGARD_COPY_PRESENCE(name) problem.name = signature.name ? 0.5 : 0;
#define REGARD_COPY_SHAPE(name)
#define REGARD_COPY(category, type, name, default_value, doc) REGARD_COPY_##category(name)
  REGARD_PROBLEM_FIELDS(REGARD_COPY)
#undef REGARD_COPY
#undef REGARD_COPY_SIGNATURE
#undef REGARD_COPY_PRESENCE
#undef REGARD_COPY_SHAPE
  return problem;
}

namespace {

/// Shapes of a signature that have kernels of their own: one of which the mask hides something and one of
/// which it hides nothing, whose kernels are those without a mask.
std::vector<Problem> examples_of(const Signature& signature) {
  std::vector<Problem> examples = {example_of(signature)};
  if (signature.mask == Mask::none) return examples;
  Problem open = examples.front();
  open.window_left = open.window_right = -1;
  if (signature.mask == Mask::causal) open.sq = 1;
  if (signature.mask == Mask::causal_top_left) open.sk = 1;
  examples.push_back(open);
  return examples;
}

/// The tile of one of a candidate's kernels; null: it has none.
const Target::Tile* tile_of(const Candidate& candidate, const Kernel& kernel, const Target& target) {
  return &kernel == candidate.recipe->main ? candidate.tile : first_tile(target, kernel.name);
}

/// All keys of one of a candidate's kernels that shapes of the question's signature can ask for.
std::vector<KernelKey> keys_of(const Question& question, const Kernel& kernel) {
  const Target::Tile* tile = tile_of(question.candidate, kernel, question.target);
  const KernelKey key = stage_of(question.problem, question.target, kernel, tile, 0, 0).key;
  return kernel.variants == nullptr ? std::vector{key} : kernel.variants(question, key);
}

/// The kernels of a candidate for some shape of this signature.
std::vector<KernelKey> keys_of(std::span<const Problem> examples, const Target& target,
                               const Candidate& candidate) {
  const PlanOptions any;
  if (first_refusal({examples.front(), target, candidate, any}, /*of_signature=*/true)) return {};
  std::vector<KernelKey> keys;
  for (const Problem& example : examples) {
    for (const Kernel* kernel : candidate.recipe->stages) {
      const std::vector<KernelKey> of_kernel = keys_of({example, target, candidate, any}, *kernel);
      keys.insert(keys.end(), of_kernel.begin(), of_kernel.end());
    }
  }
  return keys;
}

bool is_wanted(const Recipe& recipe, const Variant& variant) {
  return variant.recipes.empty() ||
         std::ranges::any_of(variant.recipes, [&](const std::string& name) { return goes_by(recipe, name); });
}

/// Finds the kernels of one variant on a target.
class Finder {
 public:
  Finder(const Variant& variant, const Target& target, KernelNumbers& numbers)
      : variant_(variant), target_(target), numbers_(numbers) {}

  /// Whether the signature has kernels, which are put into `found`. Of those that are alike to all plans one
  /// is asked.
  bool find(const Signature& signature, std::vector<std::uint64_t>& found) {
    const auto [known, is_new] = served_.try_emplace(of_plans(signature), false);
    if (!is_new) return known->second;
    const std::vector<Problem> examples = examples_of(signature);
    if (!unwritten(examples.front()).empty()) return false;
    const std::size_t before = found.size();
    std::vector<Canonical> canonical(examples.size());
    for (const MadeOf& one : candidates_of(signature.pass)) {
      if (refuses(one.candidate, examples.front())) continue;
      for (std::size_t i = 0; i < examples.size(); ++i) add(one, examples[i], canonical[i], found);
    }
    return known->second = found.size() > before;
  }

 private:
  /// A candidate, and the numbers of its kernels' algorithms where they do not depend on the signature.
  struct MadeOf {
    Candidate candidate;
    std::vector<std::optional<std::uint32_t>> algorithms;
  };
  /// The numbers of a signature as kernels depend on it.
  using Canonical = std::map<Signature (*)(const Signature&), std::uint32_t>;

  /// By its tile, which most candidates do not pass, or else by a rule, which says why.
  bool refuses(const Candidate& candidate, const Problem& example) const {
    const Target::Tile& tile = *candidate.tile;
    if (example.d > tile.max_d || example.dv > tile.max_dv) return true;
    if (std::ranges::find(tile.dtypes, example.dtype) == tile.dtypes.end()) return true;
    return first_refusal({example, target_, candidate, PlanOptions()}, /*of_signature=*/true).has_value();
  }

  void add(const MadeOf& one, const Problem& example, Canonical& canonical,
           std::vector<std::uint64_t>& found) {
    const std::vector<const Kernel*>& stages = one.candidate.recipe->stages;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (!one.algorithms[i]) {
        for (const KernelKey& key : keys_of({example, target_, one.candidate, PlanOptions()}, *stages[i]))
          found.push_back(numbers_.number_of(key));
        continue;
      }
      const auto [signature, is_new] = canonical.try_emplace(stages[i]->depends_on);
      if (is_new) signature->second = numbers_.signature(stages[i]->depends_on(needed_signature(example)));
      found.push_back(KernelNumbers::join(*one.algorithms[i], signature->second));
    }
  }

  const std::vector<MadeOf>& candidates_of(Pass pass) {
    const auto [known, is_new] = candidates_.try_emplace(pass);
    if (!is_new) return known->second;
    for (const Candidate& candidate : candidates(pass, target_)) {
      if (!is_wanted(*candidate.recipe, variant_)) continue;
      MadeOf& one = known->second.emplace_back(candidate);
      for (const Kernel* kernel : candidate.recipe->stages) {
        one.algorithms.emplace_back();
        if (kernel->variants == nullptr)
          one.algorithms.back() =
              numbers_.algorithm(algorithm_of(*kernel, tile_of(candidate, *kernel, target_)));
      }
    }
    return known->second;
  }

  const Variant& variant_;
  const Target& target_;
  KernelNumbers& numbers_;
  std::map<Pass, std::vector<MadeOf>> candidates_;
  std::unordered_map<Signature, bool, SignatureHash> served_;
};

}  // namespace

NeededKernels kernels_of(std::span<const Variant> variants, const Target& target, KernelNumbers& numbers,
                         bool (*stop)()) {
  NeededKernels needed;
  std::vector<std::uint64_t>& found = needed.numbers;
  for (const Variant& variant : variants) {
    Finder finder(variant, target, numbers);
    for (const Signature& signature : variant.signatures) {
      if (stop != nullptr && stop()) return needed;
      if (finder.find(signature, found)) continue;
      ++needed.unserved;
      if (!needed.first_unserved) needed.first_unserved = signature;
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return needed;
}

bool is_needed_by_some_plan(const KernelKey& wanted, const Target& target) {
  const std::vector<Problem> examples = examples_of(wanted.signature);
  const Problem& example = examples.front();
  const PlanOptions any;
  for (const Recipe& recipe : recipes()) {
    const std::vector<Candidate> tiles = candidates(recipe.pass, target);
    for (const Candidate& candidate : tiles) {
      if (candidate.recipe != &recipe) continue;
      // Kernels that have one tile and no rules: those beside the main one, and those that take everything.
      const auto is_stage = [&](const Kernel* kernel) {
        if (kernel->name != wanted.algorithm.kernel) return false;
        const std::vector<KernelKey> keys = keys_of({example, target, candidate, any}, *kernel);
        return std::ranges::find(keys, wanted) != keys.end();
      };
      if (recipe.main->name != wanted.algorithm.kernel || is_generic(recipe)) {
        if (std::ranges::any_of(recipe.stages, is_stage)) return true;
        break;
      }
      if (example.pass != recipe.pass || !validate(example)) continue;
      const std::vector<KernelKey> keys = keys_of(examples, target, candidate);
      if (std::ranges::find(keys, wanted) != keys.end()) return true;
    }
  }
  return false;
}

bool Exclusion::holds_for(const Signature& signature) const {
  const auto has_a_value = [&signature](const OfField& listed) {
    return std::ranges::any_of(listed.values, [&](const Signature& value) {
      bool equal = false;
      for_each_field(value, signature, [&](Field field, const auto& one, const auto& other) {
        if (field == listed.field) equal = one == other;
      });
      return equal;
    });
  };
  return std::ranges::all_of(fields, has_a_value);
}

}  // namespace regard
