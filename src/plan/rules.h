// Rules: small named functions that accept a candidate or refuse it with a sentence: why, and what would
// work. docs/rules.md lists them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plan/recipe.h"

namespace regard {

struct Question {
  const Problem& problem;
  const Target& target;
  const Candidate& candidate;
  const PlanOptions& options;
};

/// Nothing when accepted.
using Refusal = std::optional<std::string>;

struct Rule {
  std::string_view name;
  Refusal (*check)(const Question&);
  bool about_shape = false;  ///< it asks for more than the signature: batch, lengths, splits
};

/// In the order in which they are asked.
std::span<const Rule> rules();

// rules_choice.cpp: what the caller wants.
Refusal family_matches(const Question&);
Refusal asked_for(const Question&);
Refusal not_disabled(const Question&);

// rules_types.cpp: element types and head dimensions.
Refusal dtype_on_target(const Question&);
Refusal backward_dtype(const Question&);
Refusal dtypes_go_together(const Question&);
Refusal softcap_without_bias(const Question&);
Refusal kernel_takes_dtype(const Question&);
Refusal head_dims_fit(const Question&);
Refusal head_dims_aligned(const Question&);
Refusal wide_heads_are_plain(const Question&);

// rules_family.cpp: what each family needs.
Refusal positions_fit(const Question&);
Refusal few_query_rows(const Question&);
Refusal decode_without_dropout(const Question&);
Refusal splits_allowed(const Question&);
Refusal long_sums(const Question&);
Refusal split_is_invariant(const Question&);
Refusal paged_cache(const Question&);
Refusal batch_prefill_inputs(const Question&);
Refusal append_is_dense(const Question&);
Refusal append_has_a_tile(const Question&);
Refusal combine_columns(const Question&);

// rules_pipeline.cpp: gpu pipelines.
Refusal pipeline_on_target(const Question&);
Refusal pipeline_has_features(const Question&);
Refusal pipeline_fits_family(const Question&);
Refusal hopper_forward(const Question&);
Refusal hopper_tile(const Question&);
Refusal hopper_cluster(const Question&);
Refusal hopper_cluster_shape(const Question&);
Refusal hopper_packing(const Question&);
Refusal trload_head_dims(const Question&);
Refusal v3_tile(const Question&);
Refusal batch_prefill_gfx11(const Question&);

// rules_cpu_tile.cpp: cpu tiles.
Refusal cpu_tile_sizes(const Question&);

// rules_tile.cpp: gpu tiles.
Refusal tile_is_complete(const Question&);
Refusal launch_fits(const Question&);
Refusal two_warps_share_rows(const Question&);
Refusal shared_memory_fits(const Question&);
Refusal accumulators_leave_room(const Question&);
Refusal steps_divide(const Question&);
Refusal fragments_divide(const Question&);
Refusal wide_qr_fragments(const Question&);
Refusal cdna_tile_shape(const Question&);
Refusal async_loads_are_even(const Question&);

// rules_kernel.cpp: last of all, as what it refuses is planned all the same, for explain.
Refusal kernel_exists(const Question&);

}  // namespace regard
