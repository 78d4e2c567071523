#include <gmock/gmock.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>

#include "base/machine.h"
#include "device/cpu/cpu.h"
#include "support/temporary_folder.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace regard::cpu {
namespace {

namespace fs = std::filesystem;

class Cgroup : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << '\n';
  }
  const TemporaryFolder folder_;
  const std::string& root_ = folder_.path();
};

TEST_F(Cgroup, WithoutFilesThereIsNoLimit) {
  EXPECT_EQ(cgroup_cores(root_), 0);
  EXPECT_EQ(cgroup_memory(root_), -1);
}

TEST_F(Cgroup, TheSmallestQuotaOnTheWayUpCounts) {
  write("/proc/self/cgroup", "0::/a/b");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000");
  write("/sys/fs/cgroup/a/cpu.max", "250000 100000");
  write("/sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_EQ(cgroup_cores(root_), 3);  // 2.5, rounded up
}

TEST_F(Cgroup, AContainerSeesOnlyItsRoot) {
  write("/proc/self/cgroup", "0::/docker/not-visible-from-here");
  write("/sys/fs/cgroup/cpu.max", "50000 100000");
  write("/sys/fs/cgroup/memory.max", "1000");
  write("/sys/fs/cgroup/memory.current", "400");
  EXPECT_EQ(cgroup_cores(root_), 1);
  EXPECT_EQ(cgroup_memory(root_), 600);
}

TEST_F(Cgroup, UnlimitedMemoryIsNoLimit) {
  write("/proc/self/cgroup", "0::/");
  write("/sys/fs/cgroup/memory.max", "max");
  write("/sys/fs/cgroup/memory.current", "400");
  EXPECT_EQ(cgroup_memory(root_), -1);
}

TEST_F(Cgroup, VersionOneIsRead) {
  write("/proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000");
  write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000");
  write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "6000");
  EXPECT_EQ(cgroup_cores(root_), 2);
  EXPECT_EQ(cgroup_memory(root_), 0);
}

TEST(Machine, HasCoresMemoryAndFlags) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_GT(available_memory(), 1 << 20);
}

#if defined(__x86_64__)
/// The words of the first line with this name in /proc/cpuinfo.
std::set<std::string> words_of(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> words;
  for (std::string line; words.empty() && std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(line.find(':') + 1));
    for (std::string word; rest >> word;) words.insert(word);
  }
  return words;
}

TEST(Machine, ItsFlagsAreThoseOfTheOperatingSystem) {
  const std::set<std::string> system = words_of("flags");
  if (system.empty()) GTEST_SKIP() << "/proc/cpuinfo lists no flags here";
  const std::span<const std::string> flags = cpu_flags();
  for (const std::string& flag : flags) EXPECT_TRUE(system.contains(flag)) << flag;
  const std::set<std::string> ours(flags.begin(), flags.end());
  EXPECT_EQ(ours.size(), flags.size());
  for (const char* flag : {"sse2", "avx", "avx2", "fma", "f16c", "bmi2", "avx512f", "avx512bw", "avx512dq",
                           "avx512vl", "avx512cd", "avx512_bf16", "amx_tile", "amx_bf16"})
    EXPECT_EQ(ours.contains(flag), system.contains(flag)) << flag;
  EXPECT_EQ(words_of("vendor_id"), std::set<std::string>{std::string(cpu_vendor())});
  std::istringstream model{std::string(cpu_model())};
  std::set<std::string> words;
  for (std::string word; model >> word;) words.insert(word);
  EXPECT_EQ(words, words_of("model name"));
}
#elif defined(__aarch64__)
TEST(Machine, ItsFlagsAreThoseOfTheOperatingSystem) {
  const std::span<const std::string> flags = cpu_flags();
  const std::set<std::string> ours(flags.begin(), flags.end());
  EXPECT_EQ(ours.size(), flags.size());
  for (const auto& [flag, vector, bit] :
       {std::tuple{"asimd", AT_HWCAP, HWCAP_ASIMD}, std::tuple{"asimdhp", AT_HWCAP, HWCAP_ASIMDHP},
        std::tuple{"asimdfhm", AT_HWCAP, HWCAP_ASIMDFHM}, std::tuple{"sve", AT_HWCAP, HWCAP_SVE},
        std::tuple{"sve2", AT_HWCAP2, HWCAP2_SVE2}, std::tuple{"i8mm", AT_HWCAP2, HWCAP2_I8MM},
        std::tuple{"bf16", AT_HWCAP2, HWCAP2_BF16}})
    EXPECT_EQ(ours.contains(flag), (getauxval(vector) & static_cast<unsigned long>(bit)) != 0) << flag;
  EXPECT_TRUE(ours.contains("asimd"));
  if ((getauxval(AT_HWCAP) & HWCAP_CPUID) != 0) {
    EXPECT_NE(cpu_model(), "");
  }
}
#endif

TEST(Machine, KnowsTheFlagsOfItsOwnArchitectureAlone) {
  for (const std::string& flag : cpu_flags()) EXPECT_TRUE(can_have_flag(flag)) << flag;
  EXPECT_NE(can_have_flag("avx2"), can_have_flag("asimd"));
  EXPECT_FALSE(can_have_flag("altivec"));
}

TEST(Machine, LendsTheTileRegistersWhereThereAreAnyAndElseSaysWhyNot) {
  const bool has_tiles = std::ranges::find(cpu_flags(), "amx_tile") != cpu_flags().end();
  const Status allowed = allow_tiles();
  EXPECT_EQ(allowed.has_value(), has_tiles);
  EXPECT_THAT(allowed ? "" : allowed.error().message, testing::HasSubstr(has_tiles ? "" : "AMX"));
}

}  // namespace
}  // namespace regard::cpu
