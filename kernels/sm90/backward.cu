// Backward for Hopper: bf16 and fp16, any mask, GQA, packed sequences, soft cap.
//
// A block is block_k keys of one K/V head, whose dK and dV stay in registers; it goes through the tiles of
// queries that see any of its keys, and adds its contribution to their dQ to sums in memory. The first
// warpgroup loads, adds, and reads masks of bits and ranges; the other two multiply by wgmma, each with its
// own 64 keys or both with the same ones.
#include "kernels/cuda/pdl.h"
#include "kernels/sm90/backward_adder.h"
#include "kernels/sm90/backward_consumer.h"
#include "kernels/sm90/backward_loader.h"
#include "kernels/sm90/backward_pair.h"

namespace regard {

constexpr i32 threads = config::warps * wave;

}  // namespace regard

extern "C" __global__ void __launch_bounds__(regard::threads, 1)
    REGARD_SYMBOL(const __grid_constant__ regard::TensorMap q, const __grid_constant__ regard::TensorMap k,
                  const __grid_constant__ regard::TensorMap v,
                  const __grid_constant__ regard::TensorMap grad_o,
                  const __grid_constant__ regard::BackwardArguments arguments) {
  using namespace regard;
  extern __shared__ char dynamic[];
  __shared__ Sm90BackwardShared shared;
  __shared__ Sm90BackwardMasks masks;
  if (config::bits && threadIdx.x < wave) masks.init();
  if (threadIdx.x < wave) shared.init();
  __syncthreads();
  launch_dependent_grids();
  wait_on_dependent_grids();
  const Sm90BackwardMemory memory(dynamic);
  const i32 warpgroup = __shfl_sync(whole_warp, threadIdx.x / 128, 0);
  const Sm90BackwardWork work(arguments, blockIdx.x, shared.seen_tiles);
  if constexpr (config::bits) {
    find_seen_tiles(arguments, work, shared.seen_tiles);
    __syncthreads();
  }
  // The registers that the block is launched with, 168 per thread, are moved to the warpgroups that need
  // them. The compiler must not need more than each one is given.
  if (warpgroup == 0) {
    reg_dealloc<24>();
    const i32 warp = __shfl_sync(whole_warp, threadIdx.x / wave, 0);
    if constexpr (config::bits)
      if (warp == 3) return write_masks(arguments, work, masks);
    if constexpr (!grad_q_is_shared)
      if (warp == 2) return grant_grad_q(arguments, work, shared);
    if (threadIdx.x % wave != 0) return;
    if (warp == 0) {
      Loader<q_stages>{mapped_rows(k, arguments.k, arguments, work, false),
                       mapped_rows(q, arguments.q, arguments, work, true),
                       shared.k_full,
                       shared.q_full,
                       shared.q_empty,
                       memory.k(),
                       memory.q(0),
                       memory.lse(0),
                       static_cast<i32>(layout.k),
                       static_cast<i32>(layout.q),
                       arguments.lse_log2}
          .run(arguments, work);
    } else if (warp == 1) {
      Loader<grad_o_stages>{mapped_rows(v, arguments.v, arguments, work, false),
                            mapped_rows(grad_o, arguments.grad_o, arguments, work, true),
                            shared.v_full,
                            shared.grad_o_full,
                            shared.grad_o_empty,
                            memory.v(),
                            memory.grad_o(0),
                            memory.delta(0),
                            static_cast<i32>(layout.v),
                            static_cast<i32>(layout.grad_o),
                            arguments.delta}
          .run(arguments, work);
    } else if (warp == 2 && grad_q_is_shared) {
      add_grad_q(arguments, work, shared, memory);
    }
  } else {
    reg_alloc<240>();
    if constexpr (!shares_keys) {
      BackwardConsumer(arguments, work, shared, masks, memory, warpgroup - 1).run();
    } else {
      const Pair pair(arguments, work, shared, masks, memory);
      if (warpgroup == 1)
        pair.run_first();
      else
        pair.run_second();
    }
  }
}
