// Memory that runs out at a chosen allocation.
#pragma once

namespace regard::test {

/// Whether this build can do so: sanitizers replace malloc themselves.
extern const bool memory_can_fail;

/// From now on the n-th allocation of the process fails, or that one and all that follow.
void fail_allocation(long n, bool all_following);

/// Stops failing allocations. Returns whether one has failed.
bool end_failing();

/// Allocations that have not been freed.
long pieces_in_use();

}  // namespace regard::test
