// Grids, scratch and workspace of the kernels: one function per kind of plan, one file per kernel. The
// scratch is that of the CPU kernels; blocks of a GPU have none, and their grids follow from the tile in the
// same way.
#pragma once

#include "plan/plan.h"

namespace regard {

Result<Plan> cpu_forward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_forward_split(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_decode(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_generic_forward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_generic_backward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);
Result<Plan> cpu_backward(const Problem&, const Target&, const Target::Tile&, const PlanOptions&);

/// Query rows that share a K/V head: what the decode kernel handles at once.
std::int64_t group_rows(const Problem&);

/// Query heads whose rows share the blocks of the forward kernel: those of a K/V head where each has so few
/// rows that they would not fill tiles, or would all read and pack the same keys; and those of a paged cache,
/// so that pages are looked up once. With dropout heads stay apart. With batch_invariant they go together,
/// however long the longest sequence of the batch is.
std::int64_t heads_together(const Problem&);
/// How many blocks that makes, of so many rows each.
std::int64_t cpu_row_blocks(const Problem&, std::int64_t block_rows);

}  // namespace regard
