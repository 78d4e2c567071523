// Which kernels a manifest comes to: exactly those, and for which of its lines.
#include "build/selection.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "plan/profile.h"

namespace regard::build {
namespace {

TEST(Binaries, MayBeOfAnyKernelThatIsPlanned) {
  const Result<const Profile*> profile = find_profile("default");
  ASSERT_TRUE(profile);
  for (const std::string_view name : {"cpu-avx2", "cpu-amx", "sm_90a", "sm_80"}) {
    const Result<const Target*> target = find_target(name);
    ASSERT_TRUE(target);
    const Result<std::vector<KernelKey>> keys = kernels_of(**profile, **target);
    ASSERT_TRUE(keys);
    for (const KernelKey& key : *keys) EXPECT_TRUE(is_needed_by_some_plan(key, **target)) << print(key);
  }
}

}  // namespace
}  // namespace regard::build
