// Blocks of keys that run at the same time add to the same rows of dQ one after the other, in the order of
// the keys, so that there is a single sum in memory and its bits do not depend on timing.
//
// The first block that sees a query does not wait for any other block there. When it has finished, so have
// the blocks before it: no later query has an earlier first block, so from here on they have nothing to add.
//
// A block waits only for the previous one, which was taken earlier (the grid hands blocks out in order):
// that one has ended or is running on another thread, so the wait ends whatever the number of threads.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/backward_schedule.h"
#include "kernels/cpu/backward_scratch.h"

extern "C" int sched_yield() noexcept;

namespace regard {

/// Rows of dQ that a block of keys has finished, counted from the last row of the part; each count has its
/// own cache line. The count of part 0 is followed by the number of parts that have ended with the block
/// (query_parts.h).
constexpr i64 progress_stride = progress_bytes / 8, ended_parts = 1;

/// Where the counts of one part of the queries of a K/V head start.
inline i64 part_progress(const CpuBackwardArguments& a, i64 batch, i64 kv_head, i64 part) {
  return ((batch * a.hk + kv_head) * a.query_parts + part) * a.key_blocks * progress_stride;
}

/// Lets the blocks of keys of one part of the queries add to dQ one after the other.
class GradQSemaphore {
 public:
  /// For block number `number` of the keys, and one part of the queries of a K/V head.
  GradQSemaphore(const CpuBackwardArguments& a, i64 batch, i64 kv_head, i64 part, i64 number)
      : mine_(a.progress + part_progress(a, batch, kv_head, part) + number * progress_stride),
        before_(number > 0 ? mine_ - progress_stride : nullptr) {}

  /// Waits until the previous block has finished the last `rows` of the part.
  REGARD_NOINLINE void wait(i64 rows) const {
    if (before_ == nullptr || rows == 0) return;
    constexpr int patience = 4000;  // a few microseconds; after that, others may need this core
    for (int i = 0; __atomic_load_n(before_, __ATOMIC_ACQUIRE) < rows; ++i) {
      if (i >= patience) sched_yield();
#if defined(__x86_64__)
      else
        __builtin_ia32_pause();
#endif
    }
  }
  /// Signals that the next block may add to the last `rows`.
  void finish(i64 rows) const { __atomic_store_n(mine_, rows, __ATOMIC_RELEASE); }

 private:
  i64 *mine_, *before_;
};

}  // namespace regard
