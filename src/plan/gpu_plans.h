// Grids, shared memory and workspace of GPU kernels.
#pragma once

#include "kernels/portable/forward_layout.h"
#include "kernels/sm90/forward_layout.h"
#include "plan/plan.h"

namespace regard {

/// Rows per query head in a block of several heads of one K/V head, as the Hopper kernel packs few rows; 0:
/// it does not.
std::int64_t rows_of_packed_heads(const Problem&, std::int64_t block_q);

/// Blocks that these rows of all query heads of a K/V head fill; 0: they are not packed.
std::int64_t packed_work(const Problem&, std::int64_t block_q);

/// Blocks of query rows that the Hopper kernel works through, each once for every part of the keys; those of
/// a cluster go together.
std::int64_t sm90_work(const Problem&, std::int64_t block_q, std::int64_t cluster);

/// How many query heads, those of a K/V head, stand as rows of one in the portable kernel, so that a block
/// reads K and V for all of its rows: where each head has one row, all rows see the same keys, and nothing
/// goes by head or row. 1: they do not.
std::int64_t heads_as_rows(const Problem&);

/// Blocks of query rows of the portable kernel, each once for every part of the keys.
std::int64_t portable_work(const Problem&, std::int64_t block_q);

/// Nothing hides a key, and all sequences are of one length: all work is of one size.
bool every_row_sees_all_keys(const Problem&);

/// How many (batch, head) pairs are worked on together: as many as have K and V in `cache_bytes`, and at
/// least those that share them.
std::int64_t pairs_side_by_side(const Problem&, std::int64_t cache_bytes);

/// Shared memory of a tile's forward kernel.
Sm90ForwardLayout sm90_layout(const Problem&, const Target::Tile&);
Sm90ForwardLayout sm90_layout(const KernelKey&);
portable::ForwardLayout portable_layout(const Problem&, const Target::Tile&);

/// What a launch of this CUDA kernel asks for, beside the shared memory that its code declares.
std::int64_t dynamic_shared_bytes(const KernelKey&);

/// Of the memory's rate, what `busy` of so many multiprocessors draw: 0 .. 1. Two share a way to memory, and
/// one of them alone draws 1.75 times its share of the whole (H200, docs/hopper.md). Just past a half it
/// falls: a round ends with those that share.
double drawn_share(double busy, double multiprocessors);

/// In how many parts the keys of long rows are summed up, where the caller leaves it to the plan: a kernel's
/// sums in registers lose digits with every key (docs/semantics.md, Numbers). 1: they are not long, or have
/// so many rows that the parts would take too much memory.
std::int64_t parts_of_long_rows(const Problem&);

/// What the stage is expected to take; the rate is that of a multiprocessor, of which so many are `busy`, and
/// one alone would take `traffic` to read K and V; the part of that which a round waits for is included.
double gpu_forward_seconds(const Plan&, const Stage&, double flops_per_second, double busy, double traffic);

/// What the merge of parts takes beside a launch and reading and writing them once; the rate is that of the
/// chip.
double gpu_merge_seconds(const Plan&, double bytes_per_second);

/// All keys at once, or in parts that are merged.
Result<Plan> gpu_forward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> gpu_forward_split(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
/// Of the portable kernels.
Result<Plan> portable_forward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> portable_forward_split(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);

}  // namespace regard
