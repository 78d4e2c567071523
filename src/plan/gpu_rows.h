// How rows of queries are distributed on a GPU, for any kernel.
#pragma once

#include "plan/plan.h"

namespace regard {

/// No key is hidden by its position, and all sequences have the same length; bits and ranges may hide some.
bool positions_hide_nothing(const Problem&);

/// No key is hidden, and all sequences have the same length: all work has the same size.
bool every_row_sees_all_keys(const Problem&);

/// How many of the `pairs` (batch, head) are processed together, if the caches of a GPU hold the data of
/// `most` at a time. If each die has a cache of its own and gets the same number of whole pairs
/// (kernels/portable/die_order.h), the result divides that number.
std::int64_t pairs_together(std::int64_t most, std::int64_t pairs, int dies);

/// How many (batch, head) pairs are processed together: as many as have K and V in `cache_bytes`, and at
/// least those that share them.
std::int64_t batch_heads_side_by_side(const Problem&, std::int64_t cache_bytes);

/// Into how many parts the sum over the keys of long rows is split, where the caller leaves it to the plan: a
/// kernel's sums in registers lose digits with every key (docs/semantics.md, Numbers). 1: they are not long,
/// or there are so many rows that the parts would take too much memory,
/// or with batch_invariant they are cut anyway.
std::int64_t parts_of_long_rows(const Problem&);

}  // namespace regard
