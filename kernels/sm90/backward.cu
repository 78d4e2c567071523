// Backward for Hopper: bf16 and fp16, any positional mask, GQA, packed sequences, soft cap.
//
// A block is block_k keys of one K/V head, whose dK and dV stay in registers; it goes through the tiles of
// queries that see any of its keys, and adds what it knows of their dQ to sums in memory. The first warpgroup
// loads and makes dQ; each other one has 64 keys.
#include "kernels/sm90/backward_consumer.h"
#include "kernels/sm90/backward_grad_q.h"

namespace regard {

constexpr i32 registers_for_keys = key::d > 64 ? 224 : 208,
              registers_for_grad_q = 3 * 168 - consumers * registers_for_keys;
static_assert(consumers == 2);

}  // namespace regard

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
  // The registers that a block of three warpgroups begins with, 168 a thread, go to those who need them. The
  // compiler must not need more than each one is given.
  if (warpgroup == 0) {
    reg_dealloc<registers_for_grad_q>();
    GradQ(memory, Loader(q, k, v, grad_o, arguments, memory)).run(work);
  } else {
    reg_alloc<registers_for_keys>();
    Consumer(arguments, work, memory, warpgroup - 1).run();
  }
}
