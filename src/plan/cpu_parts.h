// What the CPU plans have in common: splitting the keys, sizing the workspace.
#pragma once

#include "plan/plan.h"
#include "plan/stage.h"

namespace regard {

/// A plan without stages, the keys in one part.
Plan start(const Problem&, const Target&, Family, const PlanOptions&);

/// Sizes the scratch for the hungriest stage on every thread and lays the workspace out.
Result<Plan> finish(Plan);

/// Operands of products are pairs of bf16 (kernels/cpu/product.h).
bool pairs(const Problem&, const Target&);
/// Operand elements that n numbers take in a forward or backward kernel.
std::int64_t operand_depth(const Problem&, const Target&, std::int64_t n);

/// Cuts the keys into at most `splits` parts, each a whole number of `unit` keys.
void split_keys(Plan&, std::int64_t splits, std::int64_t unit);
/// Cuts the keys into parts of exactly `keys`.
void split_every(Plan&, std::int64_t keys);

/// fp32 O and LSE of every part, and the stage that merges them.
void need_partials(Plan&);
Stage combine_stage(const Plan&);

/// With batch_invariant the keys are cut at multiples of this, whatever the batch is.
constexpr std::int64_t invariant_split_keys = 4096;
/// Below this a part costs more to merge than it saves.
constexpr std::int64_t least_split_keys = 512;
constexpr std::int64_t most_splits = 128;

}  // namespace regard
