#include "plan/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/cpu_plans.h"

namespace regard {
namespace {

bool is_generic(const Candidate& candidate) {
  return candidate.recipe->name == "generic";
}

Family family_of(const Problem& p) {
  if (p.pass == Pass::bwd) return Family::backward;
  if (p.pass == Pass::append) return Family::append_kv;
  if (p.paged > 0) return p.varlen || p.sq > 16 ? Family::batch_prefill : Family::paged;
  return Family::forward;
}

Refusal pass_matches(const Question& q) {
  if (q.candidate.recipe->pass == q.problem.pass) return {};
  return fmt::format("it computes {}, the problem asks for {}", word(q.candidate.recipe->pass),
                     word(q.problem.pass));
}

Refusal family_matches(const Question& q) {
  const Family wanted = family_of(q.problem), offered = q.candidate.recipe->family;
  if (offered == wanted || (wanted == Family::forward && offered == Family::split_kv)) return {};
  return fmt::format("it solves {}, the problem is {}", word(offered), word(wanted));
}

Refusal asked_for(const Question& q) {
  const std::string& wanted = q.options.family;
  if (wanted.empty() || wanted == q.candidate.recipe->name || wanted == word(q.candidate.recipe->family))
    return {};
  return fmt::format("only '{}' was asked for", wanted);
}

Refusal not_disabled(const Question& q) {
  for (const std::string& name : q.options.disabled) {
    if (name == q.candidate.recipe->name || name == q.candidate.recipe->kernel ||
        name == word(q.candidate.recipe->family)) {
      return fmt::format("REGARD_DISABLE names '{}'", name);
    }
  }
  return {};
}

Refusal kernel_exists(const Question& q) {
  if (q.candidate.recipe->make != nullptr && q.candidate.tile != nullptr) return {};
  return fmt::format("target {} has no {} kernel yet", q.target.name, q.candidate.recipe->kernel);
}

Refusal dtype_supported(const Question& q) {
  const auto& dtypes = q.candidate.tile->dtypes;
  if (std::find(dtypes.begin(), dtypes.end(), q.problem.dtype) != dtypes.end()) return {};
  return fmt::format("its kernel on {} does not take {}; the generic kernel does", q.target.name,
                     word(q.problem.dtype));
}

Refusal head_dims_fit(const Question& q) {
  const Target::Tile& tile = *q.candidate.tile;
  if (q.problem.d <= tile.max_d && q.problem.dv <= tile.max_dv) return {};
  return fmt::format("head dims {}/{} are above its {}/{}; the generic kernel takes them", q.problem.d,
                     q.problem.dv, tile.max_d, tile.max_dv);
}

Refusal splits_allowed(const Question& q) {
  const bool split = q.candidate.recipe->family == Family::split_kv;
  if (!split) {
    if (q.problem.pass == Pass::fwd && q.problem.splits > 1) {
      return fmt::format("splits={} was asked for; use splits=auto", q.problem.splits);
    }
    return {};
  }
  if (q.problem.splits == 1) return "splits=1 forbids splitting the keys";
  if (q.problem.dropout_mask) return "it does not write the dropout mask; the forward kernel does";
  if (decode_splits(q.problem, q.options) < 2) return "the grid fills all threads without splitting the keys";
  return {};
}

Refusal strict_allows(const Question& q) {
  if (!q.options.strict || !is_generic(q.candidate) || q.options.family == "generic") return {};
  return "REGARD_STRICT=1 forbids falling to the generic kernels";
}

}  // namespace

std::span<const Rule> rules() {
  static constexpr Rule list[] = {
      {"pass_matches", pass_matches},   {"family_matches", family_matches},
      {"asked_for", asked_for},         {"not_disabled", not_disabled},
      {"kernel_exists", kernel_exists}, {"dtype_supported", dtype_supported},
      {"head_dims_fit", head_dims_fit}, {"splits_allowed", splits_allowed},
      {"strict_allows", strict_allows},
  };
  return list;
}

}  // namespace regard
