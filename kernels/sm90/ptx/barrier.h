// mbarrier: counts arrivals and bytes; waiters name the parity of the phase that they wait for.
#pragma once

#include "kernels/cuda/warp.h"

namespace regard {

class Barrier {
 public:
  /// By one thread; `make_visible` and a __syncthreads, or cluster_sync, must precede the first use.
  REGARD_DEVICE void init(u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
  }
  REGARD_DEVICE static void make_visible() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }

  REGARD_DEVICE void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  /// Arrives, and the phase also waits for `bytes` of loads.
  REGARD_DEVICE void expect(u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes)
                 : "memory");
  }
  /// Arrives once this thread's copies to shared memory (ptx/copy.h) are done.
  REGARD_DEVICE void arrive_after_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address()) : "memory");
  }
  /// Returns at once for the parity of the phase before the first, 1.
  REGARD_DEVICE void wait(u32 parity) {
    asm volatile(
        "{\n .reg .pred done;\n"
        "WAIT:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n @!done bra WAIT;\n}" ::"r"(
            address()),
        "r"(parity)
        : "memory");
  }
  REGARD_DEVICE u32 address() const { return shared_address(this); }

 private:
  u64 state_;
};

/// Makes writes to shared memory, of this thread or of those that it has synchronized with, visible to matrix
/// instructions, of this thread or of those that synchronize with it afterwards.
REGARD_DEVICE void make_visible_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Hardware barriers by number, between whole warps of `threads` threads: some arrive, the others wait for
/// them.
REGARD_DEVICE void named_arrive(i32 number, i32 threads = 256) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
REGARD_DEVICE void named_sync(i32 number, i32 threads = 256) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/// A barrier for a single warpgroup.
REGARD_DEVICE void warpgroup_sync(i32 number) {
  asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
}

}  // namespace regard
