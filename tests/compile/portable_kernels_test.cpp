// The portable kernels in the tiles of every CUDA target.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "base/lanes.h"
#include "compile/compiled_kernel.h"
#include "compile/test_nvrtc.h"
#include "plan/kernel.h"
#include "plan/plan.h"
#include "plan/stage.h"

namespace regard {
namespace {

KernelKey key_of(const Target& target, const Target::Tile& tile, const std::string& problem) {
  const Result<Problem> parsed = parse(problem);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return stage_of(*parsed, target, *find_kernel(tile.kernel), &tile, 1, 0).key;
}

/// Each tile once without a mask and once with one, in its widest head dimensions.
std::vector<KernelKey> keys_of_tiles(const Target& target) {
  std::vector<KernelKey> keys;
  for (const Target::Tile& tile : target.tiles) {
    if (tile.kernel != "portable_forward") continue;
    for (const char* mask : {"", " mask=causal"})
      keys.push_back(key_of(target, tile,
                            fmt::format("fwd {} b=1 h=1 s=1 d={} dv={}{}", word(tile.dtypes.back()),
                                        tile.max_d, tile.max_dv, mask)));
  }
  return keys;
}

/// The merge of parts, in every type of O.
std::vector<KernelKey> keys_of_merges(const Target& target) {
  std::vector<KernelKey> keys;
  for (const Target::Tile& tile : target.tiles) {
    if (tile.kernel != "portable_combine") continue;
    for (const DType dtype : tile.dtypes) {
      if (bytes_of(dtype) > 1)
        keys.push_back(key_of(target, tile, fmt::format("fwd {} b=1 h=1 s=1 d=64", word(dtype))));
    }
  }
  return keys;
}

/// What else is compiled in, in the tiles that the plan takes for it, for few rows and for many, at the head
/// dimensions that leave the fewest registers to spare.
std::vector<KernelKey> keys_of_features(const Target& target) {
  std::map<std::string, KernelKey> keys;
  for (const int d : {64, 128, 256}) {
    for (const char* features :
         {"softcap=30", "bias=bh", "bias=alibi mask=causal", "bits", "bits mask=causal", "dropout=0.1",
          "dropout=0.1 mask=causal", "softcap=30 dropout=0.1", "softcap=30 dropout=0.1 mask=causal",
          "bias=bh dropout=0.1", "bias=bh dropout=0.1 mask=causal", "bias=alibi dropout=0.1 mask=causal",
          "bits bias=bh", "softcap=30 bits dropout=0.1 mask=causal dv=59",
          "bias=bh bits dropout=0.1 mask=causal dv=59", "softcap=30 bias=bh",
          "softcap=30 bias=alibi mask=causal", "softcap=30 bias=bh bits dropout=0.1 mask=causal dv=59",
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
  std::vector<KernelKey> list;
  for (const auto& [text, key] : keys) list.push_back(key);
  return list;
}

/// In as many threads as there are cores.
void expect_none_spills(const std::vector<KernelKey>& keys) {
  ASSERT_FALSE(keys.empty());
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  std::vector<Result<Compiled>> kernels(keys.size());
  std::atomic<std::size_t> next{0};
  run_lanes(static_cast<int>(std::thread::hardware_concurrency()), [&](int) {
    for (std::size_t i; (i = next.fetch_add(1)) < keys.size();) kernels[i] = compiled(*compiler, keys[i]);
  });
  for (std::size_t i = 0; i < keys.size(); ++i) {
    SCOPED_TRACE(print(keys[i]));
    expect_no_spills(kernels[i]);
  }
}

class PortableKernel : public testing::TestWithParam<const char*> {};

TEST_P(PortableKernel, CompilesWithoutSpillsInEveryTile) {
  expect_none_spills(keys_of_tiles(**find_target(GetParam())));
}

TEST_P(PortableKernel, MergesPartsWithoutSpills) {
  expect_none_spills(keys_of_merges(**find_target(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Targets, PortableKernel,
                         testing::Values("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"));

class PortableFeatures : public testing::TestWithParam<const char*> {};

TEST_P(PortableFeatures, CompileWithoutSpills) {
  expect_none_spills(keys_of_features(**find_target(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Targets, PortableFeatures, testing::Values("sm_80", "sm_90a"));

}  // namespace
}  // namespace regard
