// What plans have in common: splitting the keys, sizing the workspace.
#pragma once

#include "kernels/split_keys.h"
#include "plan/plan.h"
#include "plan/stage.h"

namespace regard {

/// Threads, or a GPU's multiprocessors: how many blocks run at once.
int workers(const Target&, const PlanOptions&);

/// A plan without stages, the keys in one part.
Plan start(const Problem&, const Target&, const PlanOptions&);

/// Query rows of a sequence that share a K/V head.
std::int64_t rows_of_kv_head(const Problem&);
/// How many new tokens there are, packed or not.
std::int64_t new_tokens(const Problem&);
/// Whether forward reads queries that an earlier stage rotates by rope.
bool rotates_queries(const Problem&);
/// Elements from one row of them to the next: whole groups of 16 bytes.
std::int64_t rotated_q_columns(const Problem&);
/// What the stage that writes new tokens reads and writes.
double bytes_of_append(const Problem&);

/// Puts that stage first if forward writes a cache, and before it one that writes the bits of a mask that is
/// a function. Sizes the scratch memory for the stage that needs most on every thread, and lays out the
/// workspace.
Result<Plan> finish(Plan);

/// On a CPU: whether vectors multiply pairs of bf16, as in decode (kernels/cpu/product.h); whether the tile
/// unit does, which decode does not use; whether either does.
bool vector_vnni(DType, const Target&);
bool tile_unit(DType, const Target&);
bool vnni(DType, const Target&);
/// On a CPU: how many bf16 numbers represent one number in products by the tile unit.
int operand_pieces(DType, const Target&);
/// On a CPU: the operand elements that n numbers take in a forward or backward kernel.
std::int64_t operand_depth(DType, const Target&, std::int64_t n);

constexpr std::int64_t most_splits = 128;

/// Cuts the keys into at most `splits` parts, each a whole number of `unit` keys.
void split_keys(Plan&, std::int64_t splits, std::int64_t unit);
/// The same, into as many as the problem says, else into `preferred` if they are not too short; with
/// batch_invariant at the same keys whatever the batch.
void split_as_asked(Plan&, std::int64_t preferred, std::int64_t unit);
/// Whether keys are cut on a GPU at multiples of one number, whatever the batch and the bound of the lengths.
bool cuts_at_multiples(const Problem&);
/// Cuts them there: a number of whole `unit` keys.
void split_at_multiples(Plan&, std::int64_t unit);
/// How many parts that gives. A learned sink is added by the merge, so that there are two parts at least.
std::int64_t parts_at_multiples(const Problem&, std::int64_t unit);
/// How many parts of at least `least_keys` there can be.
std::int64_t most_parts(const Problem&, std::int64_t least_keys);
/// As many parts of `blocks` as give two blocks per worker.
std::int64_t parts_for_workers(const Plan&, std::int64_t blocks);

/// The beginning of the schedule of a kernel that takes parts of the keys.
SplitKeys split_keys_of(const Plan&);
/// The same for kernels that divide the keys by the lengths on the device, unless they are cut at multiples.
SplitKeys split_seen_keys_of(const Plan&);
/// Adds the stage that merges the parts, with its schedule, and the intermediate results of the parts in the
/// workspace: fp32 O, LSE and, if requested, row_max.
void merge_parts(Plan&, Stage merge);

/// Below this a part costs more to merge than it saves, except for sm90_forward, which decides by cost.
constexpr std::int64_t least_split_keys = 512;

}  // namespace regard
