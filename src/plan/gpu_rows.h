// How rows of queries are shared out on a GPU, whatever the kernel.
#pragma once

#include "plan/plan.h"

namespace regard {

/// Nothing hides a key, and all sequences are of one length: all work is of one size.
bool every_row_sees_all_keys(const Problem&);

/// How many (batch, head) pairs are worked on together: as many as have K and V in `cache_bytes`, and at
/// least those that share them.
std::int64_t pairs_side_by_side(const Problem&, std::int64_t cache_bytes);

/// In how many parts the keys of long rows are summed up, where the caller leaves it to the plan: a kernel's
/// sums in registers lose digits with every key (docs/semantics.md, Numbers). 1: they are not long, or have
/// so many rows that the parts would take too much memory.
std::int64_t parts_of_long_rows(const Problem&);

}  // namespace regard
