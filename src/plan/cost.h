// The expected cost of a plan: floating-point operations and bytes moved, at the rates in the target's table.
#pragma once

#include "plan/plan.h"

namespace regard {

using Seconds = double;

/// Good enough to choose between candidates; not a promise.
Seconds cost_seconds(const Plan&);

// What kernels base their estimates on. A worker is a thread, or a GPU's multiprocessor.

/// Of one worker. A CPU's table has the rates of one core, a GPU's table those of the chip.
double flops_per_second(const Plan&, DType);
double bytes_per_second(const Plan&);
/// Of all workers.
double chip_bytes_per_second(const Plan&);

/// Blocks run in rounds; in the last round some workers idle. How many are busy, on average, where a worker
/// needs `at_once` blocks for that.
double busy_workers(const Plan&, const Stage&, double at_once);
/// The same for a GPU: a block of four warps leaves the matrix units idle half of the time.
double busy_workers(const Plan&, const Stage&);

/// By one worker: computed as whole tiles of rows, those of a K/V head's query heads together or of each
/// head.
Seconds seconds_to_compute(const Plan&, std::int64_t rows_of_tile, bool heads_share_blocks,
                           double flops_per_second);
/// By one worker: K and V, as far as some row sees them, are read once where query heads share blocks, else
/// once per query head.
Seconds seconds_to_read(const Plan&, bool heads_share_blocks);

}  // namespace regard
