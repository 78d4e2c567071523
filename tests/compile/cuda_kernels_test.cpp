// Kernels for CUDA targets as NVRTC compiles them: no GPU is needed to see spills.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/nvrtc.h"
#include "compile/test_nvrtc.h"
#include "kernel/render.h"

namespace regard {
namespace {

class CudaKernel : public testing::TestWithParam<const char*> {};

TEST_P(CudaKernel, CompilesWithoutSpillsAndWithAsynchronousProducts) {
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  for (const char* mask : {"", " mask=window"}) {
    const Result<KernelKey> key = parse_kernel_key(std::string(GetParam()) + mask);
    ASSERT_TRUE(key) << key.error().message;
    const Result<Rendered> rendered = render(*key);
    ASSERT_TRUE(rendered) << rendered.error().message;
    const Result<Compiled> compiled =
        compiler->compile({rendered->symbol, rendered->source, rendered->options});
    ASSERT_TRUE(compiled) << compiled.error().message;
    const Resources& resources = *compiled->resources;
    EXPECT_FALSE(resources.spills()) << compiled->log;
    EXPECT_EQ(resources.stack_bytes, 0) << compiled->log;
    EXPECT_THAT(resources.performance_warnings, testing::IsEmpty());
    EXPECT_THAT(rendered->source, testing::HasSubstr("wgmma.mma_async"));
  }
}

// The tiles that were measured on an H200 (docs/hopper.md).
INSTANTIATE_TEST_SUITE_P(
    Hopper, CudaKernel,
    testing::Values(
        "sm_90a forward wgmma_tma block_q=128 block_k=128 warps=12 warp_groups=2 stages=3 | fwd bf16 d=64",
        "sm_90a forward wgmma_tma block_q=192 block_k=128 warps=16 stages=3 | fwd bf16 d=64",
        "sm_90a forward wgmma_tma block_q=192 block_k=128 warps=16 stages=3 | fwd fp16 d=64 softcap",
        "sm_90a forward wgmma_tma block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 | fwd bf16 d=128",
        "sm_90a forward wgmma_tma block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 | fwd bf16 d=72 "
        "dv=99",
        "sm_90a forward wgmma_tma block_q=128 block_k=176 warps=12 warp_groups=2 stages=2 | fwd bf16 d=128",
        "sm_90a forward wgmma_tma block_q=128 block_k=176 warps=12 warp_groups=2 stages=2 | fwd fp16 d=128 "
        "softcap",
        "sm_90a forward wgmma_tma block_q=128 block_k=112 warps=12 warp_groups=2 stages=2 | fwd bf16 d=192 "
        "dv=128",
        "sm_90a forward wgmma_tma block_q=128 block_k=80 warps=12 stages=2 | fwd bf16 d=256",
        "sm_90a forward wgmma_tma block_q=128 block_k=80 warps=12 stages=2 | fwd fp16 d=256",
        "sm_90a forward wgmma_tma block_q=128 block_k=224 warps=12 warp_groups=2 stages=2 | fwd fp8 out=bf16 "
        "d=64",
        "sm_90a forward wgmma_tma block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 | fwd fp8 out=bf16 "
        "d=64",
        "sm_90a forward wgmma_tma block_q=128 block_k=224 warps=12 warp_groups=2 stages=2 | fwd fp8 out=bf16 "
        "d=128",
        "sm_90a forward wgmma_tma block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 | fwd fp8_e5m2 "
        "out=fp16 "
        "d=128 softcap",
        "sm_90a forward wgmma_tma block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 | fwd fp8 out=bf16 "
        "d=96 dv=112",
        "sm_90a forward wgmma_tma block_q=128 block_k=96 warps=12 warp_groups=2 stages=2 | fwd fp8 out=bf16 "
        "d=256",
        "sm_90a forward wgmma_tma block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 group=8 | fwd bf16 "
        "d=128",
        "sm_90a forward wgmma_tma block_q=192 block_k=128 warps=16 stages=3 group=12 | fwd bf16 d=64",
        "sm_90a forward wgmma_tma block_q=128 block_k=80 warps=12 stages=2 group=2 | fwd fp16 d=256",
        "sm_90a forward wgmma_tma block_q=128 block_k=128 warps=12 warp_groups=2 stages=2 group=4 | fwd fp8 "
        "out=bf16 d=128"));

}  // namespace
}  // namespace regard
