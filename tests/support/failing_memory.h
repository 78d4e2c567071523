// Memory that runs out at a chosen allocation.
#pragma once

namespace regard::test {

/// Whether this build can do so: sanitizers have malloc for themselves.
extern const bool memory_can_fail;

/// From now on the n-th allocation of the process fails, or that one and all that follow.
void fail_allocation(long n, bool all_following);

/// No more of them. Whether one has failed.
bool end_failing();

/// Pieces of memory that are allocated and not freed.
long pieces_in_use();

}  // namespace regard::test
