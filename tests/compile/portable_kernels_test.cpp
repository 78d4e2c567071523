// The portable kernels, compiled in the tiles of every CUDA target.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "compile/compiled_kernel.h"
#include "plan/kernel.h"
#include "plan/plan.h"
#include "plan/stage.h"

namespace regard {
namespace {

KernelKey key_of(const Target& target, const Target::Tile& tile, const std::string& problem) {
  const Result<Problem> parsed = parse(problem);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return key_of(*parsed, target, *find_kernel(tile.algorithm.kernel), &tile);
}

std::vector<KernelKey> values_of(const std::map<std::string, KernelKey>& keys) {
  std::vector<KernelKey> list;
  for (const auto& [text, key] : keys) list.push_back(key);
  return list;
}

/// Each tile with and without a mask, at its widest head dimensions.
std::vector<KernelKey> keys_of_tiles(const Target& target) {
  std::vector<KernelKey> keys;
  for (const Target::Tile& tile : target.tiles) {
    if (tile.algorithm.kernel != "portable_forward") continue;
    for (const char* mask : {"", " mask=causal"})
      keys.push_back(key_of(target, tile,
                            fmt::format("fwd {} b=1 h=1 s=1 d={} dv={}{}", word(tile.dtypes.back()),
                                        tile.max_d, tile.max_dv, mask)));
  }
  return keys;
}

/// The merge of parts, for every type of O, and of the caller's partial results.
std::vector<KernelKey> keys_of_merges(const Target& target) {
  std::vector<KernelKey> keys;
  for (const Target::Tile& tile : target.tiles) {
    const bool parts = tile.algorithm.kernel == "portable_combine",
               callers = tile.algorithm.kernel == "portable_merge";
    if (!parts && !callers) continue;
    for (const DType dtype : tile.dtypes) {
      if (bytes_of(dtype) == 1) continue;
      if (callers)
        keys.push_back(key_of(target, tile, fmt::format("merge {} b=1 h=1 sq=1 d=64 parts=2", word(dtype))));
      for (const char* more : {"", " batch_invariant"})
        if (parts)
          keys.push_back(key_of(target, tile, fmt::format("fwd {} b=1 h=1 s=1 d=64{}", word(dtype), more)));
    }
  }
  return keys;
}

/// All other features, in the tiles that plans choose for few rows and for many, at the head dimensions that
/// leave the fewest registers to spare.
std::vector<KernelKey> keys_of_features(const Target& target) {
  std::map<std::string, KernelKey> keys;
  for (const int d : {64, 128, 256}) {
    for (const char* features :
         {"softcap=30", "bias=bh", "bias=alibi mask=causal", "bits", "bits mask=causal", "dropout=0.1",
          "dropout=0.1 mask=causal", "softcap=30 dropout=0.1", "softcap=30 dropout=0.1 mask=causal",
          "bias=bh dropout=0.1", "bias=bh bias_type=fp32 dropout=0.1 mask=causal",
          "bias=alibi dropout=0.1 mask=causal", "bits bias=bh",
          "softcap=30 bits dropout=0.1 mask=causal dv=59", "bias=bh bits dropout=0.1 mask=causal dv=59",
          "softcap=30 bias=bh", "softcap=30 bias=alibi mask=causal",
          "softcap=30 bias=bh bits dropout=0.1 mask=causal dv=59",
          "softcap=30 bias=alibi dropout=0.1 mask=causal"}) {
      for (const char* shape : {"b=1 h=1 s=64", "b=64 h=64 s=4096"}) {
        const Result<Plan> planned =
            parse(fmt::format("fwd fp16 {} d={} {}", shape, d, features)).and_then([&](const Problem& p) {
              return plan(p, target, {.family = "portable_forward"});
            });
        EXPECT_TRUE(planned) << planned.error().message;
        if (!planned) continue;
        const KernelKey& key = planned->stages.front().key;
        keys.emplace(print(key), key);
      }
    }
  }
  return values_of(keys);
}

/// All stages of that family's plan for a problem.
std::vector<KernelKey> keys_of_stages(const Target& target, const std::string& problem,
                                      std::string_view family) {
  const Result<Plan> planned = parse(problem).and_then(
      [&](const Problem& p) { return plan(p, target, {.family = std::string(family)}); });
  EXPECT_TRUE(planned) << planned.error().message;
  std::vector<KernelKey> keys;
  if (!planned) return keys;
  for (const Stage& stage : planned->stages) keys.push_back(stage.key);
  return keys;
}

/// Backward's main kernel in each tile with a mask (without one it is the same with less code), and the
/// stages before and after it for every type.
std::vector<KernelKey> keys_of_backward(const Target& target) {
  std::map<std::string, KernelKey> keys;
  for (const Target::Tile& tile : target.tiles) {
    if (tile.algorithm.kernel != "portable_backward") continue;
    const std::string rest = fmt::format("b=1 h=1 s=64 d={} dv={} mask=causal", tile.max_d, tile.max_dv);
    const KernelKey key = key_of(target, tile, fmt::format("bwd {} {}", word(tile.dtypes.back()), rest));
    keys.emplace(print(key), key);
    for (const DType dtype : tile.dtypes) {
      const std::vector<KernelKey> stages =
          keys_of_stages(target, fmt::format("bwd {} {}", word(dtype), rest), "portable_backward");
      if (stages.empty()) continue;
      for (const KernelKey& other : {stages.front(), stages.back()}) keys.emplace(print(other), other);
    }
  }
  return values_of(keys);
}

/// All other features of backward, at the head dimensions that leave the fewest registers to spare.
std::vector<KernelKey> keys_of_backward_features(const Target& target) {
  std::map<std::string, KernelKey> keys;
  for (const int d : {64, 128, 256}) {
    for (const char* features :
         {"softcap=30 mask=causal", "bias=bh bias_type=fp32 dbias mask=causal",
          "bits dropout=0.1 mask=causal", "softcap=30 bias=bh dbias bits dropout=0.1 mask=causal dv=59",
          "softcap=30 bias=alibi dropout=0.1 mask=causal"}) {
      const std::string problem = fmt::format("bwd fp16 b=8 hq=8 hk=2 s=1024 d={} {}", d, features);
      for (const KernelKey& key : keys_of_stages(target, problem, "portable_backward"))
        keys.emplace(print(key), key);
    }
  }
  return values_of(keys);
}

/// The stage that writes the bits of masks: with tensors of all types, and with operations of all kinds.
std::vector<KernelKey> keys_of_masks(const Target& target) {
  std::vector<KernelKey> keys;
  for (const char* mask : {"keep=doc[b,q]==doc[b,kv]&&kv<=p tensors=doc:int32[2]",
                           "keep=m[b,h,q//16,kv//16]&&abs(q%64-kv%64)<7 tensors=m:bool[4]",
                           "keep=float(kv)*w[kv]<sqrt(float(q))+rsqrt(float(kv+1))*cos(float(kv))&&exp(-"
                           "float(q))<pow(1.5,float(h)) "
                           "tensors=w:fp32[1]"})
    keys.push_back(
        keys_of_stages(target, fmt::format("fwd fp16 s=64 d=64 {}", mask), "portable_forward").front());
  return keys;
}

class PortableKernel : public testing::TestWithParam<const char*> {};

TEST_P(PortableKernel, CompilesWithoutSpillsInEveryTile) {
  expect_none_spills(keys_of_tiles(**find_target(GetParam())));
}

TEST_P(PortableKernel, MergesPartsWithoutSpills) {
  expect_none_spills(keys_of_merges(**find_target(GetParam())));
}

TEST_P(PortableKernel, CompilesBackwardWithoutSpillsInEveryTile) {
  expect_none_spills(keys_of_backward(**find_target(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Targets, PortableKernel,
                         testing::Values("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"));

class PortableFeatures : public testing::TestWithParam<const char*> {};

TEST_P(PortableFeatures, CompileWithoutSpills) {
  expect_none_spills(keys_of_features(**find_target(GetParam())));
}

TEST_P(PortableFeatures, CompileInBackwardWithoutSpills) {
  expect_none_spills(keys_of_backward_features(**find_target(GetParam())));
}

TEST_P(PortableFeatures, WriteBitsOfMasksWithoutSpills) {
  expect_none_spills(keys_of_masks(**find_target(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Targets, PortableFeatures, testing::Values("sm_80", "sm_90a"));

}  // namespace
}  // namespace regard
