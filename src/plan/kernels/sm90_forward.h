// Declarations shared by the parts of the host half of kernels/sm90/forward.cu, and by that of latent.cu,
// whose blocks get their work in the same way.
#pragma once

#include "kernels/sm90/forward_layout.h"
#include "plan/kernel.h"

namespace regard {

/// Rows per query head in a block of several heads of one K/V head, if there are few rows; 0: they are not
/// packed.
std::int64_t pack_gqa_rows_of_head(const Problem&, std::int64_t block_q);

/// How many keys of a page one box has; 0: there are no pages, or they are too small for boxes.
std::int64_t keys_of_box(const Problem&, std::int64_t block_k);

/// Whether pages are too small for boxes, so that threads copy their keys.
bool gathers(const Problem&, std::int64_t block_k);

/// Blocks that these rows of all query heads of a K/V head fill; 0: they are not packed.
std::int64_t pack_gqa_work(const Problem&, std::int64_t block_q);

/// Blocks of query rows to be processed, each once for every part of the keys; those of a cluster go
/// together.
std::int64_t sm90_work(const Problem&, std::int64_t block_q, std::int64_t cluster);

/// A stage of the kernel, whose schedule is Sm90ForwardSchedule, and the merge if there are parts.
Result<Plan> plan_sm90_parts(const Kernel&, const Problem&, const Target&, const Target::Tile&,
                             const PlanOptions&, std::int64_t parts);
/// The same with as many parts as the caller says, or as cost least.
Result<Plan> plan_sm90_split(const Kernel&, const Problem&, const Target&, const Target::Tile&,
                             const PlanOptions&);
/// The numbers of Sm90ForwardSchedule.
std::vector<ScheduleNumber> sm90_schedule_numbers(const Schedule&);

/// The layout for the two halves of a key.
Sm90ForwardLayout sm90_layout(const Signature&, const Algorithm&);
inline Sm90ForwardLayout sm90_layout(const KernelKey& key) {
  return sm90_layout(key.signature, key.algorithm);
}

/// sm90_forward_rules.cpp
Refusal ragged_maps_fit(const Question&);
Refusal split_pays(const Question&);
std::span<const Rule> sm90_forward_rules();
std::vector<KernelKey> sm90_forward_variants(const Question&, const KernelKey&);
/// sm90_forward_cost.cpp
double sm90_forward_seconds(const Plan&, const Stage&);
/// sm90_forward_boxes.cpp
Result<TensorBoxes> sm90_forward_boxes(const Plan&, const Stage&, const Arguments&);

}  // namespace regard
