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
  // A window that hides something, so that the kernel is one with a mask.
  if (signature.mask == Mask::window || signature.mask == Mask::window_top_left) problem.window_left = 0;
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

/// What decides whether and with which kernels a recipe serves a signature: more than the main kernel's
/// canonical signature only where a rule asks for it.
Signature needs_of(const Signature& signature, const Recipe& recipe, const Target& target) {
  Signature needs = recipe.main->depends_on(signature);
  needs.dtype = signature.dtype;
  needs.out = signature.out;
  needs.d = signature.d;
  needs.dv = signature.dv;
  needs.dropout = signature.dropout;
  if (target.on_cpu()) return needs;
  // Whether heads share a block, and blocks a cluster.
  needs.varlen = signature.varlen;
  needs.lengths = signature.lengths;
  needs.batch_invariant = signature.batch_invariant;
  return needs;
}

/// All keys of one of a candidate's kernels that shapes of the question's signature can ask for.
std::vector<KernelKey> keys_of(const Question& question, const Kernel& kernel) {
  const Candidate& candidate = question.candidate;
  const bool main = &kernel == candidate.recipe->main;
  const Target::Tile* tile = main ? candidate.tile : first_tile(question.target, kernel.name);
  const KernelKey key = stage_of(question.problem, question.target, kernel, tile, 0, 0).key;
  return kernel.variants == nullptr ? std::vector{key} : kernel.variants(question, key);
}

/// The kernels of a candidate for some shape of this signature.
std::vector<KernelKey> keys_of(const Problem& example, const Target& target, const Candidate& candidate) {
  const PlanOptions any;
  const Question question{example, target, candidate, any};
  if (first_refusal(question, /*of_signature=*/true)) return {};
  std::vector<KernelKey> keys;
  for (const Kernel* kernel : candidate.recipe->stages) {
    const std::vector<KernelKey> of_kernel = keys_of(question, *kernel);
    keys.insert(keys.end(), of_kernel.begin(), of_kernel.end());
  }
  return keys;
}

bool is_wanted(const Recipe& recipe, const Variant& variant) {
  return variant.recipes.empty() ||
         std::ranges::any_of(variant.recipes, [&](const std::string& name) { return goes_by(recipe, name); });
}

}  // namespace

NeededKernels kernels_of(std::span<const Variant> variants, const Target& target, bool (*stop)()) {
  // A main kernel's canonical signature decides who serves it, so each one is asked once: whether it is
  // taken.
  using Asked = std::unordered_map<Signature, bool, SignatureHash>;
  std::map<std::pair<const Target::Tile*, const Recipe*>, Asked> asked;
  std::map<std::string, KernelKey> keys;
  NeededKernels needed;
  for (const Variant& variant : variants) {
    for (const Signature& signature : variant.signatures) {
      if (stop != nullptr && stop()) return needed;
      const Problem example = example_of(signature);
      bool served = false;
      if (unwritten(example).empty()) {
        for (const Candidate& candidate : candidates(example.pass, target)) {
          const Recipe& recipe = *candidate.recipe;
          if (!is_wanted(recipe, variant)) continue;
          const auto [known, is_new] =
              asked[{candidate.tile, &recipe}].try_emplace(needs_of(signature, recipe, target), false);
          if (is_new) {
            for (const KernelKey& key : keys_of(example, target, candidate)) {
              keys.emplace(print(key), key);
              known->second = true;
            }
          }
          served = served || known->second;
        }
      }
      if (served) continue;
      ++needed.unserved;
      if (!needed.first_unserved) needed.first_unserved = signature;
    }
  }
  for (auto& [text, key] : keys) needed.keys.push_back(std::move(key));
  return needed;
}

bool is_needed_by_some_plan(const KernelKey& wanted, const Target& target) {
  const Problem example = example_of(wanted.signature);
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
      const std::vector<KernelKey> keys = keys_of(example, target, candidate);
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
