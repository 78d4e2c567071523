// The rules of every kernel: what the caller requests, element types, head dimensions, tiles.
#include "plan/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "plan/recipe.h"
#include "plan/stage.h"
#include "problem/functions.h"

namespace regard {
namespace {

bool contains(const std::vector<DType>& dtypes, DType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

std::string words(const std::vector<DType>& dtypes) {
  std::string text;
  for (DType dtype : dtypes) text += fmt::format("{}{}", text.empty() ? "" : ", ", word(dtype));
  return text;
}

Refusal asked_for(const Question& q) {
  if (q.options.family.empty() || matches(q.candidate, q.options.family)) return {};
  return fmt::format("only {} was asked for, and it does not match that", in_quotes(q.options.family));
}

Refusal not_disabled(const Question& q) {
  for (const std::string& name : q.options.disabled) {
    if (matches(q.candidate, name)) {
      return fmt::format("{} is disabled; remove it from REGARD_DISABLE", in_quotes(name));
    }
  }
  return {};
}

Refusal target_has_features(const Question& q) {
  const Kernel& kernel = q.candidate.kernel();
  for (Feature feature : kernel.features) {
    if (q.target.has(feature)) continue;
    return fmt::format("{} needs {}, which {} does not have", kernel.name, word(feature), q.target.name);
  }
  return {};
}

/// "; cpu and hip targets compute in fp8_fnuz", if no target of this kind does.
std::string elsewhere(DType dtype, TargetKind here) {
  std::set<TargetKind> kinds;
  for (const Target& other : *targets())
    if (contains(other.dtypes, dtype)) kinds.insert(other.kind);
  if (kinds.empty() || kinds.contains(here)) return {};
  std::string text;
  for (const TargetKind kind : kinds) text += fmt::format("{}{}", text.empty() ? "; " : " and ", word(kind));
  return fmt::format("{} targets compute in {}", text, word(dtype));
}

Refusal dtype_on_target(const Question& q) {
  const DType dtype = q.problem.dtype;
  if (contains(q.target.dtypes, dtype)) return {};
  return fmt::format("{} does not compute in {}; it takes {}{}", q.target.name, word(dtype),
                     words(q.target.dtypes), elsewhere(dtype, q.target.kind));
}

Refusal kernel_takes_dtype(const Question& q) {
  if (contains(q.candidate.tile->dtypes, q.problem.dtype)) return {};
  // A kernel has tiles for several types; they are listed together.
  std::vector<DType> taken;
  for (const Target::Tile& other : q.target.tiles) {
    if (other.algorithm.kernel != q.candidate.tile->algorithm.kernel) continue;
    for (const DType dtype : other.dtypes)
      if (!contains(taken, dtype)) taken.push_back(dtype);
  }
  if (contains(taken, q.problem.dtype)) taken = q.candidate.tile->dtypes;
  return fmt::format("it does not take {}; it takes {}", word(q.problem.dtype), words(taken));
}

Refusal head_dims_fit(const Question& q) {
  const Target::Tile& tile = *q.candidate.tile;
  const auto fits = [&](const Target::Tile& one) {
    return q.problem.d <= one.max_d && q.problem.dv <= one.max_dv;
  };
  if (fits(tile)) return {};
  const std::string_view stem = q.candidate.kernel().stem();
  const bool wider = std::ranges::any_of(candidates(q.problem.pass, q.target), [&](const Candidate& other) {
    return other.kernel().stem() == stem && contains(other.tile->dtypes, q.problem.dtype) &&
           fits(*other.tile);
  });
  const std::string_view who = wider ? "a wider kernel takes them"
                               : has_generic_kernel(q.problem.pass, q.target)
                                   ? "the generic kernel takes them"
                                   : "no kernel takes them yet";
  return fmt::format("head dims {}/{} are above its {}/{}; {}", q.problem.d, q.problem.dv, tile.max_d,
                     tile.max_dv, who);
}

Refusal positions_fit(const Question& q) {
  // The limit of int32, less what a tile can reach past the last row.
  constexpr std::int64_t most = INT32_MAX - 0xffff;
  const Problem& p = q.problem;
  if (p.sq <= most && p.sk <= most) return {};
  const bool queries = p.sq > most;
  return fmt::format("its positions have 32 bits and {}={} is too large; sequences have at most {} rows",
                     queries ? "sq" : "sk", queries ? p.sq : p.sk, most);
}

Refusal splits_allowed(const Question& q) {
  const Problem& p = q.problem;
  if (p.pass != Pass::fwd) return {};
  if (!splits_keys(*q.candidate.recipe)) {
    if (p.splits <= 1) return {};
    return fmt::format("it does not split the keys and splits={} was asked for; use splits=auto", p.splits);
  }
  if (p.splits == 1) return std::string("it splits the keys and splits=1 was asked for; use splits=auto");
  if (p.dropout_mask) return std::string("it does not write the dropout mask; the forward kernel does");
  return {};
}

/// Only generic kernels interpret functions of the score and the mask.
Refusal takes_functions(const Question& q) {
  if (!has_function(q.problem) || is_generic(*q.candidate.recipe)) return {};
  const std::string_view words = q.problem.keep.empty()    ? "score"
                                 : q.problem.score.empty() ? "keep"
                                                           : "score and keep";
  return fmt::format("it does not take {} yet; {}", words,
                     has_generic_kernel(q.problem.pass, q.target)
                         ? "the generic kernel interprets functions"
                         : "CPU targets have a generic kernel that interprets functions");
}

/// Forward has a stage in front that writes them.
Refusal new_tokens_on_target(const Question& q) {
  return writes_cache(q.problem) ? cache_type_on_target(q) : Refusal{};
}

}  // namespace

std::span<const Rule> general_rules() {
#define REGARD_RULE(name) {#name, name}
#define REGARD_SHAPE_RULE(name) {#name, name, true}
  static constexpr Rule list[] = {
      REGARD_RULE(asked_for),
      REGARD_RULE(not_disabled),
      REGARD_RULE(target_has_features),
      REGARD_RULE(dtype_on_target),
      REGARD_RULE(kernel_takes_dtype),
      REGARD_RULE(head_dims_fit),
      REGARD_RULE(takes_functions),
      REGARD_SHAPE_RULE(positions_fit),
      REGARD_SHAPE_RULE(splits_allowed),
      REGARD_SHAPE_RULE(new_tokens_on_target),
  };
#undef REGARD_SHAPE_RULE
#undef REGARD_RULE
  return list;
}

std::optional<Refused> first_refusal(const Question& question, bool of_signature) {
  std::size_t passed = 0;
  for (const std::span<const Rule> rules : {general_rules(), question.candidate.kernel().rules()}) {
    for (const Rule& rule : rules) {
      if (of_signature && rule.about_shape) continue;
      if (Refusal refusal = rule.check(question)) return Refused{rule.name, std::move(*refusal), passed};
      ++passed;
    }
  }
  return {};
}

bool is_selected(const Question& question) {
  return !asked_for(question) && !not_disabled(question);
}

}  // namespace regard
