// Forward for Hopper: bf16, fp16 and 8 bits, any positional mask, GQA, packed sequences, soft cap, learned
// sink, LSE.
//
// A persistent block of warpgroups. The first one's first warp takes work from a counter and loads tiles of
// Q, K and V by TMA; each other one multiplies 64 query rows by wgmma. Of 8 bits the first one's other warps
// transpose V.
#include "kernels/sm90/consumer.h"
#include "kernels/sm90/producer.h"
#include "kernels/sm90/transposer.h"

extern "C" __global__ void __launch_bounds__(regard::key::warps * 32, 1)
    REGARD_SYMBOL(const __grid_constant__ regard::TensorMap q, const __grid_constant__ regard::TensorMap k,
                  const __grid_constant__ regard::TensorMap v,
                  const __grid_constant__ regard::Arguments arguments) {
  using namespace regard;
  extern __shared__ char dynamic[];
  __shared__ Shared shared;
  if (threadIdx.x == 0) shared.init(arguments);
  if (ragged(arguments) && arguments.b <= Ranking::most) shared.ranking.make(arguments);
  __syncthreads();
  const Memory memory(dynamic);
  const i32 warpgroup = __shfl_sync(whole_warp, threadIdx.x / 128, 0);
  // 64 K registers among the warpgroups; the compiler must not need more than each one is given.
  if (warpgroup == 0) {
    give_registers<consumers == 3 ? 32 : 40>();
    if (threadIdx.x < 32)
      Producer(q, k, v, arguments, shared, memory).run();
    else if constexpr (eight_bits)
      Transposer(shared, memory).run();
  } else {
    take_registers<consumers == 3 ? 160 : 232>();
    Consumer(arguments, shared, memory, warpgroup - 1).run();
  }
}
