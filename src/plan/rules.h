// Rules: small named functions that accept a candidate or refuse it with a sentence: why, and what would
// work. docs/rules.md lists them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace regard {

struct Candidate;

struct Question {
  const Problem& problem;
  const Target& target;
  const Candidate& candidate;
  const PlanOptions& options;
};

/// Empty when accepted.
using Refusal = std::optional<std::string>;

struct Rule {
  std::string_view name;
  Refusal (*check)(const Question&);
  bool about_shape = false;  ///< it depends on more than the signature: batch, lengths, splits
};

/// The rules of every kernel, in the order in which they are asked; a kernel's own follow.
std::span<const Rule> general_rules();

struct Refused {
  std::string_view rule;
  std::string reason;
  std::size_t passed;  ///< rules that accepted before
};

/// The refusal of the first rule that refuses; with `of_signature`, only of rules that depend on the
/// signature alone.
std::optional<Refused> first_refusal(const Question&, bool of_signature = false);

/// Whether the caller allows it: requested, and not switched off.
bool is_selected(const Question&);

// rules_gpu.cpp: for GPU kernels.
Refusal head_dims_aligned(const Question&);
Refusal launch_fits(const Question&);
Refusal fragments_divide(const Question&);
Refusal combine_columns(const Question&);
Refusal long_sums(const Question&);
/// Whether rows are more than portable_decode takes best.
Refusal has_many_rows(const Question&);
/// `bytes` that a block requests.
Refusal fits_in_shared_memory(const Question&, std::int64_t bytes);

// rules_cache.cpp: KV caches.
/// For kernels that read caches.
Refusal reads_cache(const Question&);
/// For what writes new tokens: that the target converts to the cache's type.
Refusal cache_type_on_target(const Question&);

// rules_split.cpp: whether splitting the keys pays. `enough` blocks keep all workers busy.
Refusal blocks_are_few(const Question&, std::int64_t blocks, std::int64_t enough);
Refusal keys_are_many(const Question&, std::int64_t enough);
/// Whether it is left to the plan.
bool may_split(const Question&);
/// With batch_invariant the keys of a CPU's forward kernel stay whole.
Refusal split_is_invariant(const Question&);
/// With batch_invariant a GPU's forward kernel cuts keys at fixed places, and short sequences nowhere.
Refusal parts_are_invariant(const Question&);

}  // namespace regard
