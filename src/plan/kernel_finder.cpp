#include "plan/kernel_finder.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "plan/recipe.h"
#include "plan/refusal.h"
#include "plan/stage.h"

namespace regard {
namespace {

/// Shapes of a signature that need different kernels: one in which the mask hides something, and one in which
/// it hides nothing, whose kernels are those without a mask.
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

/// All keys of one of a candidate's kernels that shapes of the question's signature can need.
std::vector<KernelKey> keys_of(const Question& question, const Kernel& kernel) {
  const Target::Tile* tile = tile_of(question.candidate, kernel, question.target);
  const KernelKey key = key_of(question.problem, question.target, kernel, tile);
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

/// Whether K and V are a cache, into which forward can write new tokens. A dense one may be no cache: its
/// kernel is found as that of append.
bool has_cache(const Signature& s) {
  return s.paged || s.rope != Rope::none;
}

bool is_selected(const Recipe& recipe, const std::vector<std::string>& recipes) {
  return recipes.empty() ||
         std::ranges::any_of(recipes, [&](const std::string& name) { return matches(recipe, name); });
}

/// Rules build a sentence when they refuse. Most tiles are for other head dimensions or types: the rules are
/// not asked about those, as the sentences would take most of the time.
bool is_refused(const Candidate& candidate, const Target& target, const Problem& example) {
  const Target::Tile& tile = *candidate.tile;
  if (example.d > tile.max_d || example.dv > tile.max_dv) return true;
  if (std::ranges::find(tile.dtypes, example.dtype) == tile.dtypes.end()) return true;
  return first_refusal({example, target, candidate, PlanOptions()}, /*of_signature=*/true).has_value();
}

}  // namespace

/// A candidate on a target, and the numbers of its kernels' algorithms if they do not depend on the
/// signature.
struct KernelFinder::Numbered {
  Candidate candidate;
  std::vector<std::optional<std::uint32_t>> algorithms;
};

KernelFinder::KernelFinder(std::span<const Variant> variants, KernelNumbers& numbers) : numbers_(numbers) {
  for (const Variant& variant : variants) {
    OfVariant& of = variants_.emplace_back(variant.recipes);
    std::unordered_map<Signature, std::size_t, SignatureHash> index_of;
    for (const Signature& signature : variant.signatures) {
      const auto [it, is_new] = index_of.try_emplace(of_plans(signature), of.classes.size());
      if (is_new) of.classes.push_back({signature});
      ++of.classes[it->second].count;
    }
  }
}

KernelFinder::Needed KernelFinder::on(const Target& target, bool (*stop)()) {
  Needed needed;
  std::vector<std::uint64_t>& found = needed.numbers;
  for (OfVariant& of : variants_) {
    std::map<Pass, std::vector<Numbered>> of_pass;
    for (SignatureClass& one : of.classes) {
      if (stop != nullptr && stop()) return needed;
      const auto [numbered, is_new] = of_pass.try_emplace(one.first.pass);
      if (is_new) numbered->second = candidates_on(target, one.first.pass, of.recipes);
      const std::size_t before = found.size();
      find(one, target, numbered->second, found);
      if (found.size() > before) {
        if (one.first.pass == Pass::fwd && has_cache(one.first)) find_append(one.first, target, found);
        continue;
      }
      needed.unserved += one.count;
      if (!needed.first_unserved) needed.first_unserved = one.first;
    }
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return needed;
}

std::vector<KernelFinder::Numbered> KernelFinder::candidates_on(const Target& target, Pass pass,
                                                                const std::vector<std::string>& recipes) {
  std::vector<Numbered> list;
  for (const Candidate& candidate : candidates(pass, target)) {
    if (!is_selected(*candidate.recipe, recipes)) continue;
    Numbered& numbered = list.emplace_back(candidate);
    for (const Kernel* kernel : candidate.recipe->stages) {
      std::optional<std::uint32_t>& algorithm = numbered.algorithms.emplace_back();
      if (kernel->variants == nullptr)
        algorithm = numbers_.algorithm(algorithm_of(*kernel, tile_of(candidate, *kernel, target)));
    }
  }
  return list;
}

void KernelFinder::find(SignatureClass& one, const Target& target, const std::vector<Numbered>& candidates,
                        std::vector<std::uint64_t>& found) {
  if (candidates.empty()) return;
  const std::vector<Problem> examples = examples_of(one.first);
  one.canonical.resize(examples.size());
  for (const Numbered& numbered : candidates) {
    if (is_refused(numbered.candidate, target, examples.front())) continue;
    const std::vector<const Kernel*>& stages = numbered.candidate.recipe->stages;
    for (std::size_t i = 0; i < examples.size(); ++i) {
      for (std::size_t j = 0; j < stages.size(); ++j) {
        if (numbered.algorithms[j]) {
          found.push_back(KernelNumbers::join(*numbered.algorithms[j],
                                              number_of(examples[i], *stages[j], one.canonical[i])));
          continue;
        }
        for (const KernelKey& key :
             keys_of({examples[i], target, numbered.candidate, PlanOptions()}, *stages[j]))
          found.push_back(numbers_.number_of(key));
      }
    }
  }
}

void KernelFinder::find_append(const Signature& forward, const Target& target,
                               std::vector<std::uint64_t>& found) {
  Signature signature = forward;
  signature.pass = Pass::append;
  const Problem example = example_of(signature);
  for (const Candidate& candidate : candidates(Pass::append, target)) {
    if (is_refused(candidate, target, example)) continue;
    const Kernel& kernel = candidate.kernel();
    found.push_back(KernelNumbers::join(numbers_.algorithm(algorithm_of(kernel, candidate.tile)),
                                        numbers_.signature(kernel.depends_on(signature))));
  }
}

std::uint32_t KernelFinder::number_of(const Problem& example, const Kernel& kernel, Canonical& known) {
  const auto it = std::ranges::find(known, kernel.depends_on, &Canonical::value_type::first);
  if (it != known.end()) return it->second;
  const std::uint32_t number = numbers_.signature(kernel.depends_on(needed_signature(example)));
  known.emplace_back(kernel.depends_on, number);
  return number;
}

bool is_needed_by_some_plan(const KernelKey& requested, const Target& target) {
  const std::vector<Problem> examples = examples_of(requested.signature);
  const Problem& example = examples.front();
  const PlanOptions any;
  for (const Recipe& recipe : recipes()) {
    const std::vector<Candidate> tiles = candidates(recipe.pass, target);
    for (const Candidate& candidate : tiles) {
      if (candidate.recipe != &recipe) continue;
      // Kernels that have one tile and no rules: those of secondary stages, and those that take everything.
      const auto is_stage = [&](const Kernel* kernel) {
        if (kernel->name != requested.algorithm.kernel) return false;
        const std::vector<KernelKey> keys = keys_of({example, target, candidate, any}, *kernel);
        return std::ranges::find(keys, requested) != keys.end();
      };
      if (recipe.main->name != requested.algorithm.kernel || requested.signature.d == 0) {
        if (std::ranges::any_of(recipe.stages, is_stage)) return true;
        break;
      }
      if (example.pass != recipe.pass || !validate(example)) continue;
      const std::vector<KernelKey> keys = keys_of(examples, target, candidate);
      if (std::ranges::find(keys, requested) != keys.end()) return true;
    }
  }
  return false;
}

}  // namespace regard
