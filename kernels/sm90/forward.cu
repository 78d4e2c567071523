// Forward for Hopper: bf16, fp16 and 8-bit types, any positional mask, GQA, packed sequences, soft cap,
// learned sink, LSE.
//
// A persistent block of warpgroups. The first warp of the first warpgroup takes work from a counter and
// hands it out; the other warps of that warpgroup load tiles of Q, K and V by TMA or, for 8-bit types,
// transpose V while the first one also loads. Each other warpgroup multiplies 64 query rows by wgmma.
#include "kernels/cuda/pdl.h"
#include "kernels/sm90/consumer.h"
#include "kernels/sm90/loader.h"
#include "kernels/sm90/scheduler.h"
#include "kernels/sm90/transposer.h"

namespace regard {

/// Waits for all threads that share barriers: those of the block, or of its cluster.
REGARD_DEVICE void sync_block() {
  if constexpr (cluster > 1)
    cluster_sync();
  else
    __syncthreads();
}

constexpr i32 threads = config::warps * wave;

}  // namespace regard

extern "C" __global__ void __launch_bounds__(regard::threads, 1)
    REGARD_SYMBOL(const __grid_constant__ regard::TensorMap q, const __grid_constant__ regard::TensorMap k,
                  const __grid_constant__ regard::TensorMap v, const __grid_constant__ regard::TensorMap o,
                  const __grid_constant__ regard::Sm90ForwardArguments arguments) {
  using namespace regard;
  if constexpr (split_kv) launch_dependent_grids();  // combine.cu
  extern __shared__ char dynamic[];
  __shared__ Sm90ForwardShared shared;
  if (threadIdx.x < wave) shared.init(arguments);
  if (ragged(arguments) && arguments.b <= Ranking::most) shared.ranking.make(arguments);
  wait_on_dependent_grids();  // append.cu
  sync_block();
  const Sm90ForwardMemory memory(dynamic);
  const i32 warpgroup = __shfl_sync(whole_warp, threadIdx.x / 128, 0);
  // 64 K registers are divided among the warpgroups; if there are only two, each has enough from the start.
  // The compiler must not need more than each one is given.
  if (warpgroup == 0) {
    if constexpr (consumers > 1) reg_dealloc<consumers == 3 ? 32 : 40>();
    const i32 warp = __shfl_sync(whole_warp, threadIdx.x / wave, 0);
    if (warp == 0) {
      Scheduler scheduler(arguments, shared);
      if constexpr (eight_bits) {
        AllLoader loader(arguments, q, k, v, shared, memory);
#pragma unroll 1
        for (u32 turn = 0; scheduler.publish_next(); ++turn)
          loader.load(shared.turn[turn % 2], ragged(arguments));
      } else {
        while (scheduler.publish_next()) {
        }
      }
    } else if constexpr (eight_bits) {
      Transposer(shared, memory).run();
    } else if (warp == 1) {
      load_turns(QueryLoader(arguments, q, shared, memory), arguments, shared, false);
    } else {
      const bool of_v = warp == 3;
      load_turns(KeyLoader(arguments, of_v ? v : k, shared, memory, of_v), arguments, shared, !of_v);
    }
  } else {
    if constexpr (consumers > 1) reg_alloc<consumers == 3 ? 160 : 232>();
    if constexpr (stores_boxes) {
      if (threadIdx.x == 128) prefetch(o);
    }
    ForwardConsumer(arguments, o, shared, memory, warpgroup - 1).run();
  }
  // The other block may still access this one's memory.
  if constexpr (cluster > 1) cluster_sync();
}
