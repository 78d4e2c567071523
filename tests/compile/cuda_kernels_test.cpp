// The Hopper kernels, compiled in their tiles.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/compiled_kernel.h"
#include "plan/recipe.h"
#include "plan/rules.h"
#include "plan/stage.h"

namespace regard {
namespace {

void expect_asynchronous(const Result<Compiled>& kernel) {
  ASSERT_NO_FATAL_FAILURE(expect_no_spills(kernel));
  EXPECT_THAT(kernel->resources->performance_warnings, testing::IsEmpty());
  EXPECT_GT(kernel->resources->matrix, 0);
}

// The tiles that were measured on an H200 (docs/hopper.md).
const char* const forward_kernels[] = {
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=3 | fwd bf16 d=64",
    "sm_90a sm90_forward block_q=192 block_k=128 warps=16 warp_groups=3 stages=3 | fwd bf16 d=64",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=3 | fwd fp16 d=64 "
    "softcap",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 | fwd bf16 d=128",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 | fwd bf16 d=72 "
    "dv=104",
    "sm_90a sm90_forward block_q=192 block_k=80 warps=16 warp_groups=3 stages=3 | fwd bf16 d=128",
    "sm_90a sm90_forward block_q=192 block_k=80 warps=16 warp_groups=3 stages=3 | fwd fp16 d=128",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 | fwd fp16 d=128 "
    "softcap",
    "sm_90a sm90_forward block_q=192 block_k=80 warps=16 warp_groups=3 stages=3 | fwd bf16 d=128 "
    "dv=64",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 | fwd bf16 d=192 "
    "dv=128",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 cluster=2 | fwd "
    "bf16 d=128",
    "sm_90a sm90_forward block_q=192 block_k=80 warps=16 warp_groups=3 stages=3 cluster=2 | fwd "
    "bf16 d=128",
    "sm_90a sm90_forward block_q=192 block_k=80 warps=16 warp_groups=3 stages=3 cluster=2 | fwd "
    "fp16 d=128",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 cluster=2 | fwd "
    "fp16 d=192 dv=128",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 cluster=2 | fwd bf16 d=256",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 cluster=2 | fwd fp16 d=192 "
    "softcap",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 cluster=2 | fwd "
    "bf16 d=128 softcap",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 cluster=2 | fwd "
    "fp16 d=192 dv=128 softcap",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 cluster=2 | fwd fp16 d=256",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 | fwd bf16 d=256",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 | fwd fp16 d=256",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 | fwd fp16 d=192 softcap",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 | fwd bf16 d=256 softcap",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 split=1 | fwd fp16 d=256 softcap",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 pack_gqa=2 | fwd bf16 d=192 softcap",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 pack_gqa=8 | fwd bf16 d=256 softcap",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 pack_gqa=8 split=1 | fwd fp16 d=256 "
    "softcap",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 cluster=2 | fwd bf16 d=256 "
    "softcap",
    "sm_90a sm90_forward block_q=192 block_k=128 warps=16 warp_groups=3 stages=3 | fwd fp8 out=bf16 "
    "d=64",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 stages=3 | fwd fp8 out=bf16 "
    "d=64",
    "sm_90a sm90_forward block_q=192 block_k=96 warps=16 warp_groups=3 stages=3 | fwd fp8 out=bf16 "
    "d=128",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 stages=3 | fwd fp8_e5m2 "
    "out=fp16 "
    "d=128 softcap",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 stages=3 | fwd fp8 out=bf16 "
    "d=96 dv=112",
    "sm_90a sm90_forward block_q=128 block_k=96 warps=12 warp_groups=2 stages=2 | fwd fp8 out=bf16 "
    "d=256",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 pack_gqa=8 | fwd bf16 "
    "d=128",
    "sm_90a sm90_forward block_q=64 block_k=64 warps=8 stages=8 pack_gqa=16 | fwd bf16 d=64",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 pack_gqa=2 | fwd fp16 d=256",
    "sm_90a sm90_forward block_q=64 block_k=64 warps=8 stages=6 pack_gqa=4 split=1 | fwd fp16 d=128 "
    "softcap",
    "sm_90a sm90_forward block_q=64 block_k=64 warps=8 stages=5 pack_gqa=8 | fwd bf16 d=192 dv=128",
    "sm_90a sm90_forward block_q=64 block_k=64 warps=8 stages=3 pack_gqa=2 split=1 | fwd bf16 d=256",
    "sm_90a sm90_forward block_q=64 block_k=64 warps=8 stages=3 pack_gqa=4 | fwd fp16 d=192 softcap",
    "sm_90a sm90_forward block_q=64 block_k=64 warps=8 stages=3 pack_gqa=4 | fwd fp16 d=256 softcap",
    "sm_90a sm90_forward block_q=128 block_k=96 warps=12 warp_groups=2 stages=2 pack_gqa=2 | fwd fp8 "
    "out=bf16 d=256 softcap",
    "sm_90a sm90_forward block_q=192 block_k=128 warps=16 warp_groups=3 stages=3 | fwd fp16 d=40 "
    "dv=64",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 stages=3 pack_gqa=4 | fwd fp8 "
    "out=bf16 d=128",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=3 split=1 | fwd fp16 "
    "d=64 softcap",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 pack_gqa=4 split=1 | "
    "fwd bf16 d=128",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 split=1 | fwd bf16 "
    "d=192 dv=128",
    "sm_90a sm90_forward block_q=128 block_k=80 warps=12 stages=2 split=1 | fwd bf16 d=256",
    "sm_90a sm90_forward block_q=128 block_k=128 warps=12 stages=3 pack_gqa=4 split=1 | "
    "fwd fp8 out=bf16 d=128",
    "sm_90a sm90_forward block_q=128 block_k=96 warps=12 warp_groups=2 stages=2 split=1 | fwd fp8 "
    "out=bf16 d=256",
    "sm_90a sm90_latent block_q=64 block_k=64 warps=12 stages=2 pack_gqa=1 | fwd bf16 d=576 dv=512 paged",
    "sm_90a sm90_latent block_q=64 block_k=64 warps=12 stages=2 pack_gqa=1 split=1 | fwd fp16 d=576 "
    "dv=512 softcap"};

TEST(CudaForward, CompilesWithoutSpillsAndWithAsynchronousProducts) {
  std::vector<KernelKey> keys;
  for (const char* kernel : forward_kernels)
    for (const std::string features :
         {"", " mask=window", " mask=window bias=alibi", " mask=window dropout"}) {
      const Result<KernelKey> key = parse_kernel_key(kernel + features);
      ASSERT_TRUE(key) << key.error().message;
      const Algorithm& tile = key->algorithm;
      const bool is_plain = tile.kernel == "sm90_latent" || tile.block_q > 128;
      if (is_plain && key->signature.bias != Bias::none) continue;
      const bool has_dropout =
          bytes_of(key->signature.dtype) == 2 && tile.block_q == 128 && tile.pack_gqa == 0 && tile.split == 0;
      if (key->signature.dropout && !has_dropout) continue;
      keys.push_back(*key);
    }
  each_compiled(keys, expect_asynchronous);
}

/// Backward kernels in all tiles of the target.
class CudaBackward : public testing::TestWithParam<const char*> {};

TEST_P(CudaBackward, CompilesWithoutSpillsAndWithAsynchronousProducts) {
  std::vector<KernelKey> keys;
  const Target& target = **find_target("sm_90a");
  for (const Candidate& candidate : candidates(Pass::bwd, target)) {
    if (candidate.kernel().name != "sm90_backward") continue;
    const Target::Tile& tile = *candidate.tile;
    for (const char* features :
         {"", "mask=causal", "softcap=30", "mask=causal softcap=30 deterministic", "mask=causal bias=alibi",
          "bias=alibi softcap=30", "bias=alibi dropout=0.1", "mask=causal dropout=0.1"}) {
      const Result<Problem> problem = parse(
          fmt::format("bwd {} b=1 h=1 s=1 d={} dv={} {}", GetParam(), tile.max_d, tile.max_dv, features));
      ASSERT_TRUE(problem) << problem.error().message;
      const PlanOptions any;
      if (first_refusal({*problem, target, candidate, any}, /*of_signature=*/true)) continue;
      keys.push_back(key_of(*problem, target, candidate.kernel(), &tile));
    }
  }
  each_compiled(keys, expect_asynchronous);
}

INSTANTIATE_TEST_SUITE_P(Hopper, CudaBackward, testing::Values("bf16", "fp16"));

}  // namespace
}  // namespace regard
