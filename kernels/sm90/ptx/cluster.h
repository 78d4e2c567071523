// Two blocks that run together: each can access the other's shared memory.
#pragma once

#include "kernels/sm90/ptx/barrier.h"

namespace regard {

/// Which block of its cluster this is.
REGARD_DEVICE u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// Waits until every thread of both blocks has arrived; what each of them wrote before is then visible to
/// the others.
REGARD_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
}

/// The address in block `rank` of what is at `address` in this block.
REGARD_DEVICE u32 address_in(u32 rank, u32 address) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// Arrives at this barrier of block `rank`. Without `.release.cluster`, which would wait for all stores to
/// memory: the arrival only signals that reads have ended.
REGARD_DEVICE void arrive_in(u32 rank, const Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address_in(rank, barrier.address()))
               : "memory");
}

/// Writes `value` to `word` in block `rank`, whose `barrier` counts its bytes: no fence is needed.
REGARD_DEVICE void send(u32 rank, u32& word, u32 value, const Barrier& barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                   address_in(rank, shared_address(&word))),
               "r"(value), "r"(address_in(rank, barrier.address()))
               : "memory");
}

}  // namespace regard
