// Backward for Hopper: bf16 and fp16, any positional mask, GQA, packed sequences, soft cap.
//
// A block is block_k keys of one K/V head, whose dK and dV stay in registers; it goes through the tiles of
// queries that see any of its keys, and adds what it knows of their dQ to sums in memory. The first warpgroup
// loads and makes dQ; each other one has 64 keys.
#include "kernels/sm90/backward_consumer.h"
#include "kernels/sm90/backward_grad_q.h"

extern "C" __global__ void __launch_bounds__(regard::key::warps * 32, 1)
    REGARD_SYMBOL(const __grid_constant__ regard::TensorMap q, const __grid_constant__ regard::TensorMap k,
                  const __grid_constant__ regard::TensorMap v,
                  const __grid_constant__ regard::TensorMap grad_o,
                  const __grid_constant__ regard::BackwardArguments arguments) {
  using namespace regard;
  extern __shared__ __align__(1024) char dynamic[];
  const Memory memory(dynamic);
  if (threadIdx.x == 0) memory.barriers.init();
  __syncthreads();
  const i32 warpgroup = __shfl_sync(whole_warp, threadIdx.x / 128, 0);
  const Work work(arguments, blockIdx.x);
  // 64 K registers among the warpgroups. The compiler must not need more than each one is given.
  if (warpgroup == 0) {
    reg_dealloc<64>();
    GradQ(arguments, work, memory).run(Loader(q, k, v, grad_o, arguments, work, memory));
  } else {
    reg_alloc<224>();
    Consumer(arguments, work, memory, warpgroup - 1).run();
  }
}
