// Forward of latent attention (MLA) for Hopper: V is the first 512 of the 576 columns of K, of bf16 or fp16.
//
// A persistent block has three warpgroups. The first one takes work and loads Q and tiles of K by TMA, in
// boxes of 64 columns. The second one computes the scores of 64 query rows, and it and the third one each
// multiply the weights by half of the columns of V, which they read from the tile of K.
#include "kernels/cuda/pdl.h"
#include "kernels/sm90/latent_consumer.h"
#include "kernels/sm90/latent_loader.h"

namespace regard {

constexpr i32 threads = config::warps * wave;

}  // namespace regard

extern "C" __global__ void __launch_bounds__(regard::threads, 1)
    REGARD_SYMBOL(const __grid_constant__ regard::TensorMap q, const __grid_constant__ regard::TensorMap k,
                  const __grid_constant__ regard::TensorMap rope,
                  const __grid_constant__ regard::Sm90ForwardArguments arguments) {
  using namespace regard;
  if constexpr (split_kv) launch_dependent_grids();  // combine.cu
  extern __shared__ char dynamic[];
  __shared__ Sm90LatentShared shared;
  if (threadIdx.x < wave) shared.init(arguments);
  if (ragged(arguments) && arguments.b <= Ranking::most) shared.ranking.make(arguments);
  wait_on_dependent_grids();  // append.cu
  __syncthreads();
  const Sm90LatentMemory memory(dynamic);
  const i32 warpgroup = __shfl_sync(whole_warp, threadIdx.x / 128, 0);
  // The block has 168 registers for each of its threads: 56 + 2 * 224 = 3 * 168. With more it would hang.
  if (warpgroup == 0) {
    reg_dealloc<56>();
    LatentLoader(arguments, q, k, rope, shared, memory).run();
  } else {
    reg_alloc<224>();
    if (warpgroup == 1)
      ScoresConsumer(arguments, shared, memory).run();
    else
      OutputConsumer(arguments, shared, memory).run();
  }
}
