// The kernels and the plans that use them, for the list in recipes.cpp.
#pragma once

#include "plan/kernel.h"

namespace regard {

using MakePlan = Result<Plan>(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);

extern const Kernel sm90_forward, portable_forward, portable_combine;
MakePlan plan_sm90_forward, plan_sm90_forward_split, plan_portable_forward, plan_portable_forward_split;

extern const Kernel sm90_latent;
MakePlan plan_sm90_latent, plan_sm90_latent_split;

extern const Kernel portable_decode;
MakePlan plan_portable_decode;

extern const Kernel portable_backward, portable_backward_prepare, portable_backward_convert;
MakePlan plan_portable_backward;

extern const Kernel sm90_backward;
MakePlan plan_sm90_backward;

extern const Kernel cpu_decode, cpu_forward, cpu_combine;
MakePlan plan_cpu_decode, plan_cpu_forward, plan_cpu_forward_split;

extern const Kernel cpu_append, portable_append;
MakePlan plan_cpu_append, plan_portable_append;

extern const Kernel portable_merge;
MakePlan plan_cpu_merge, plan_portable_merge;

extern const Kernel cpu_backward_delta, cpu_backward, cpu_backward_convert;
MakePlan plan_cpu_backward;

extern const Kernel cpu_generic_forward, cpu_generic_backward;
MakePlan plan_cpu_generic_forward, plan_cpu_generic_backward;

/// The stage that writes the bits of a mask that is a function (plan/function_bits.h).
struct BitsShape;
Stage write_bits_on_cpu(const Plan&, const BitsShape&);
Stage write_bits_on_gpu(const Plan&, const BitsShape&);
extern const Kernel portable_bits;

/// The stage that writes its ranges of keys (plan/function_ranges.h).
struct RangesShape;
Stage write_ranges_on_cpu(const Plan&, const RangesShape&);
Stage write_ranges_on_gpu(const Plan&, const RangesShape&);
extern const Kernel portable_ranges;

/// The stage that writes new tokens into the cache and, with rope, rotates the queries.
Stage append_on_cpu(const Problem&, const Target&);
Stage append_on_gpu(const Problem&, const Target&);

/// If the keys are split: the stage that merges the parts. `pack_gqa`: heads whose rows are treated as those
/// of one head in the plan's problem (kernels/portable/pack_gqa.h).
void merge_on_cpu(Plan&);
void merge_on_gpu(Plan&, std::int64_t pack_gqa = 1);

}  // namespace regard
