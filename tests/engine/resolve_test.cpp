// Where kernels come from: the same key gives the same bits from every tier, and each refusal says which
// tiers were searched. Settings are read once per process, so each case runs in its own process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "cache/cache.h"
#include "cache/entry.h"
#include "device/cpu/cpu.h"
#include "engine/machine.h"
#include "regard/regard.h"
#include "support/own_program.h"
#include "support/scarce_memory.h"
#include "support/temporary_folder.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// An empty folder that is removed when the test program ends.
std::string fresh_folder() {
  static const regard::TemporaryFolder parent;
  static int count = 0;
  const std::string folder = parent.path() + "/" + std::to_string(count++);
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  return folder;
}

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Runs `Child.DISABLED_<test>` of this program in its own process with these environment variables added;
/// returns its output.
std::string in_child(const Environment& environment, const std::string& test = "Run") {
  // Without the parent's shard, to which the child's test need not belong.
  std::string command = "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX RESOLVE_TEST_CHILD=1";
  for (const auto& [name, value] : environment) command += " " + name + "='" + value + "'";
  for (const std::string& word : regard::test::own_program()) command += " '" + word + "'";
  command += " --gtest_also_run_disabled_tests --gtest_filter=Child.DISABLED_" + test + " 2>&1";
  FILE* child = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, child)) > 0;) text.append(buffer, n);
  EXPECT_EQ(pclose(child), 0) << text;
  return text;
}

constexpr const char* not_built_in = "fwd fp32 h=1 s=40 d=23 mask=causal";
constexpr const char* built_in[] = {"fwd fp32 h=1 s=40 d=64 mask=causal",  //
                                    "bwd bf16 deterministic h=1 s=40 d=64 mask=causal",
                                    "fwd bf16 hq=4 hk=1 sq=1 sk=600 d=64 splits=2"};

/// The size of an fp32, bf16 or int32 tensor, in units of two bytes.
std::size_t halves(const regard_tensor& tensor) {
  std::size_t count = tensor.dtype == REGARD_BF16 ? 1 : 2;
  for (int i = 0; i < tensor.rank; ++i) count *= static_cast<std::size_t>(tensor.shape[i]);
  return count;
}

/// Fills memory with small numbers: sines (their upper halves for bf16); lengths are 3.
void fill(std::span<std::uint16_t> memory, regard_dtype dtype) {
  const std::size_t each = dtype == REGARD_BF16 ? 1 : 2;
  if (dtype == REGARD_INT32) {
    for (std::size_t i = 0; i < memory.size(); i += each) memory[i] = 3;
    return;
  }
  for (std::size_t i = 0; i < memory.size(); i += each) {
    const auto bits = std::bit_cast<std::uint32_t>(std::sin(static_cast<float>(i / each)));
    if (each == 2) memory[i] = static_cast<std::uint16_t>(bits);
    memory[i + each - 1] = static_cast<std::uint16_t>(bits >> 16);
  }
}

/// Whether a run passes the tensor as an input; it also passes optional lengths.
bool is_given(regard_role role, regard_use use) {
  return use == REGARD_INPUT || (use == REGARD_OPTIONAL_INPUT && role == REGARD_LENGTHS_Q);
}

/// Prints the plan with the tiers of its stages and the digests of the outputs, or the refusal.
void run_and_print(const char* text) {
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  char* json = nullptr;
  std::vector<std::vector<std::uint16_t>> memory, outputs;
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  const auto run = [&] {
    if (regard_problem_parse(text, &problem) != REGARD_OK) return false;
    if (regard_plan_create(problem, nullptr, &plan) != REGARD_OK) return false;
    if (regard_plan_prepare(plan) != REGARD_OK || regard_plan_json(plan, &json) != REGARD_OK) return false;
    for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
      regard_use use;
      regard_tensor& tensor = arguments.tensor[role];
      regard_problem_tensor(problem, static_cast<regard_role>(role), &use, &tensor);
      const bool given = is_given(static_cast<regard_role>(role), use);
      if (!given && use != REGARD_OUTPUT) continue;
      auto& own = (given ? memory : outputs).emplace_back(halves(tensor));
      if (given) fill(own, tensor.dtype);
      if (!given) std::ranges::fill(own, std::uint16_t{0x40e0});  // about 7
      tensor.data = own.data();
    }
    return regard_attention(problem, nullptr, &arguments) == REGARD_OK;
  };
  if (run()) {
    std::string digests;
    for (const auto& output : outputs) digests += regard::sha256(std::as_bytes(std::span(output))).hex();
    std::printf("%s\noutput %s\n", json, digests.c_str());
  } else {
    std::printf("%s", regard_status_message());
  }
  regard_string_free(json);
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);
}

/// The digest of the outputs.
std::string bits(const std::string& text) {
  const std::size_t start = text.find("output ");
  return start == std::string::npos ? text : text.substr(start, text.find('\n', start) - start);
}

TEST(Child, DISABLED_Run) {
  const char* other = std::getenv("RESOLVE_TEST_PROBLEM");
  run_and_print(other != nullptr ? other : not_built_in);
}

TEST(Child, DISABLED_LacksMemoryOnce) {
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  ASSERT_EQ(regard_problem_parse(not_built_in, &problem), REGARD_OK);
  ASSERT_EQ(regard_plan_create(problem, nullptr, &plan), REGARD_OK);
  const auto prepare = [plan](const char* when) {
    const regard_status status = regard_plan_prepare(plan);
    char* json = nullptr;
    EXPECT_EQ(regard_plan_json(plan, &json), REGARD_OK);
    std::printf("%s %d %s\n", when, status, json);
    regard_string_free(json);
  };
  {
    const regard::test::ScarceMemory scarce(1 << 20);
    prepare("first");
  }
  prepare("second");
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);
}

TEST(Child, DISABLED_IsInterruptedWhereNothingIsReady) {
  char* json = nullptr;
  regard_interrupt_if([] { return 1; });
  std::printf("info: %s\n", regard_status_name(regard_info(&json)));
  regard_string_free(json);
}

TEST(Child, DISABLED_IsInterruptedWhereTheLiveKernelIsReady) {
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  ASSERT_EQ(regard_problem_parse(not_built_in, &problem), REGARD_OK);
  ASSERT_EQ(regard_plan_create(problem, nullptr, &plan), REGARD_OK);
  ASSERT_EQ(regard_plan_prepare(plan), REGARD_OK);
  regard_plan_destroy(plan);
  regard_interrupt_if([] { return 1; });
  run_and_print(not_built_in);
  regard_problem_destroy(problem);
}

/// Makes a compiler: `answer` is its reply to `-v`, `body` the rest of its script.
std::string compiler(const std::string& path, const std::string& answer, const std::string& body) {
  std::ofstream(path) << "#!/bin/sh\n[ \"$1\" = -v ] && " << answer << '\n' << body << '\n';
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(Resolve, CompiledThenCachedGivesTheSameBits) {
  const std::string folder = fresh_folder();
  const std::string first = in_child({{"REGARD_CACHE_DIR", folder}});
  const std::string second = in_child({{"REGARD_CACHE_DIR", folder}});
  EXPECT_THAT(first, HasSubstr("\"tier\":\"compile\""));
  EXPECT_THAT(second, HasSubstr("\"tier\":\"cache\""));
  EXPECT_EQ(bits(first), bits(second));
}

TEST(Resolve, ABuiltInKernelCompiledAgainGivesTheSameBits) {
  for (const char* problem : built_in) {
    for (const char* target : {"cpu-generic", "cpu-avx2", "cpu-avx512", "cpu-avx512bf16"}) {
      const Environment common = {{"REGARD_CACHE_DIR", fresh_folder()},
                                  {"REGARD_CPU_TARGET", target},
                                  {"RESOLVE_TEST_PROBLEM", problem}};
      Environment without = common;
      without.emplace_back("REGARD_BUILT_IN", "off");
      const std::string first = in_child(common), second = in_child(without);
      EXPECT_THAT(first, HasSubstr("\"tier\":\"built-in\"")) << problem << " on " << target;
      EXPECT_THAT(first, Not(HasSubstr("\"tier\":\"compile\""))) << problem << " on " << target;
      EXPECT_THAT(second, Not(HasSubstr("\"tier\":\"built-in\""))) << problem << " on " << target;
      EXPECT_THAT(second, HasSubstr("\"tier\":\"compile\"")) << problem << " on " << target;
      EXPECT_EQ(bits(first), bits(second)) << problem << " on " << target;
    }
  }
}

TEST(Resolve, WithoutAnyCompilerTheGenericKernelAnswers) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_CXX", "/dev/null/c++"}});
  EXPECT_THAT(text, HasSubstr("generic_forward"));
  EXPECT_THAT(text, HasSubstr("fallback_reason"));
}

TEST(Resolve, StrictRefusesInsteadOfFallingBack) {
  const std::string text =
      in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_JIT", "off"}, {"REGARD_STRICT", "1"}});
  EXPECT_THAT(text, HasSubstr("REGARD_JIT=off"));
  EXPECT_THAT(text, HasSubstr("not in the cache"));
}

TEST(Resolve, LackOfMemoryIsNotRemembered) {
  if (!regard::test::can_be_scarce) GTEST_SKIP() << "memory cannot be made scarce in this build";
  const std::string folder = fresh_folder(), large = folder + "/large";
  std::ofstream(large) << std::string(4 << 20, ' ');  // replaces the kernel of the first compile
  const std::string cxx = compiler(folder + "/cxx", "exec c++ -v",
                                   "c++ \"$@\" && { [ ! -e '" + large + "' ] || mv '" + large + "' *.so; }");
  const std::string large_again = large + "-again";
  std::filesystem::copy(large, large_again);
  const auto line = [](const std::string& text, const std::string& when) {
    const std::size_t at = text.find(when);
    return at == std::string::npos ? text : text.substr(at, text.find('\n', at) - at);
  };
  const std::string strict = in_child(
      {{"REGARD_CACHE_DIR", folder}, {"REGARD_CXX", cxx}, {"REGARD_STRICT", "1"}}, "LacksMemoryOnce");
  EXPECT_THAT(line(strict, "first "), HasSubstr("first " + std::to_string(REGARD_NO_MEMORY)));
  EXPECT_THAT(line(strict, "second "), HasSubstr("second " + std::to_string(REGARD_OK)));

  // Without REGARD_STRICT a kernel that is part of the library serves meanwhile.
  std::filesystem::rename(large_again, large);
  const std::string text =
      in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_CXX", cxx}}, "LacksMemoryOnce");
  EXPECT_THAT(line(text, "first "), HasSubstr("first " + std::to_string(REGARD_OK)));
  EXPECT_THAT(line(text, "first "), HasSubstr("\"fallback_reason\":\"out of memory\""));
  EXPECT_THAT(line(text, "second "), HasSubstr("\"tier\":\"compile\""));
  EXPECT_THAT(line(text, "second "), testing::Not(HasSubstr("fallback_reason")));
}

/// Replaces the first kernels by intact entries whose binary is invalid.
void break_kernels(const std::string& folder, int count) {
  regard::Cache cache(folder, 1 << 30, 1);
  for (const regard::CacheEntryInfo& info : cache.list()) {
    if (info.manifest.find("\"kernel\"") == std::string::npos || count == 0) continue;
    ASSERT_TRUE(cache.write(*regard::parse_digest(info.key), {info.manifest, {std::byte{7}}}));
    --count;
  }
  ASSERT_EQ(count, 0);
}

TEST(Resolve, AnEntryThatDoesNotLoadHidesNoOther) {
  const std::string folder = fresh_folder(), made = folder + "/made";
  const auto version = [&](const std::string& number) {  // the second one only copies the first one's output
    return compiler(folder + "/cxx" + number, "echo fake version " + number + " && exit",
                    "if [ -e '" + made + "' ]; then while [ $1 != -o ]; do shift; done; cp '" + made +
                        "' $2; else c++ \"$@\" && cp *.so '" + made + "'; fi");
  };
  const std::string one = version("1"), two = version("2");
  const auto run = [&](Environment environment) {
    environment.emplace_back("REGARD_CACHE_DIR", folder);
    return in_child(environment);
  };
  EXPECT_THAT(run({{"REGARD_CXX", one}}), HasSubstr("\"tier\":\"compile\""));
  EXPECT_THAT(run({{"REGARD_CXX", two}}), HasSubstr("\"tier\":\"compile\""));

  const Environment cases[] = {{{"REGARD_CXX", "/dev/null/c++"}},
                               {{"REGARD_CXX", one}, {"REGARD_JIT", "off"}},
                               {{"REGARD_CXX", two}, {"REGARD_JIT", "off"}}};
  break_kernels(folder, 1);
  for (const Environment& one_case : cases) EXPECT_THAT(run(one_case), HasSubstr("\"tier\":\"cache\""));

  break_kernels(folder, 2);
  for (Environment one_case : cases) {
    one_case.emplace_back("REGARD_STRICT", "1");
    const std::string text = run(one_case);
    EXPECT_THAT(text, HasSubstr("is not built into the library, not in the cache (" + folder + "; entry "));
    EXPECT_THAT(text, HasSubstr(" there does not load: the binary of kernel "));
    EXPECT_THAT(text, HasSubstr(one_case.size() == 2 ? "cannot be compiled: " : "REGARD_JIT=off"));
  }
}

TEST(Resolve, AnUnwritableCacheStillComputes) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", "/proc/regard"}});
  EXPECT_THAT(text, HasSubstr("\"tier\":\"compile\""));
}

TEST(Resolve, ABadSettingIsASentence) {
  const std::string text = in_child({{"REGARD_JIT", "maybe"}});
  EXPECT_THAT(text, HasSubstr("REGARD_JIT='maybe' is not understood"));
}

TEST(Resolve, ACapAboveTheMachineTakesTheBestBelow) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_CPU_TARGET", "cpu-amx"}});
  EXPECT_THAT(text, HasSubstr("\"target\":\"cpu-"));
}

// A target can be slow on some vendors' chips: there it is not the default, but it is used when requested.
TEST(Resolve, ATargetThatIsSlowHereIsUsedOnlyWhereItIsAskedFor) {
  const regard::Target& target = **regard::find_target("cpu-avx512bf16");
  ASSERT_EQ(target.slow_on, std::vector<std::string>{"GenuineIntel"});
  if (!regard::runnable(target)) GTEST_SKIP() << "this machine has no instruction for products of bf16 pairs";
  const std::string folder = fresh_folder(), said = "\"target\":\"cpu-avx512bf16\"";
  const std::string best = in_child({{"REGARD_CACHE_DIR", folder}});
  if (regard::cpu::cpu_vendor() == "GenuineIntel") {
    EXPECT_THAT(best, Not(HasSubstr(said)));
  }
  EXPECT_THAT(in_child({{"REGARD_CACHE_DIR", folder}, {"REGARD_CPU_TARGET", target.name}}), HasSubstr(said));
}

/// Whether this machine is one for cpu-neon, not for cpu-avx2.
const bool on_arm = regard::cpu::can_have_flag("asimd");

TEST(Resolve, ACappedTargetIsUsed) {
  const std::string target = on_arm ? "cpu-neon" : "cpu-avx2";
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_CPU_TARGET", target}});
  EXPECT_THAT(text, HasSubstr("\"target\":\"" + target + "\""));
}

TEST(Resolve, ATargetOfAnotherArchitectureIsRefusedWithTheNamesOfThisOne) {
  const regard::Status can_run = regard::runnable(**regard::find_target(on_arm ? "cpu-avx2" : "cpu-neon"));
  ASSERT_FALSE(can_run);
  const std::string& message = can_run.error().message;
  EXPECT_THAT(message, HasSubstr("is for processors of another architecture; those for this one are cpu-"));
  EXPECT_THAT(message, HasSubstr("cpu-generic"));
  EXPECT_THAT(message, HasSubstr(on_arm ? ", cpu-neon" : ", cpu-avx2"));
}

TEST(Log, APlannedProblemIsOneLine) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_LOG", "plan"}});
  const std::string line = "regard plan: fwd fp32 ";
  EXPECT_THAT(text, HasSubstr(line));
  EXPECT_EQ(text.find(line), text.rfind(line)) << text;
}

TEST(Verify, AnotherFamilyRunsBesideTheCall) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_VERIFY", "generic"}});
  EXPECT_THAT(text, HasSubstr("beside generic: o differs by at most"));
}

TEST(Verify, AnotherTargetRunsBesideTheCall) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_VERIFY", "cpu-generic"}});
  EXPECT_THAT(text, HasSubstr("beside cpu-generic: o differs by at most"));
}

TEST(Verify, RowsPastALengthAreNoDifference) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()},
                                     {"REGARD_VERIFY", "generic"},
                                     {"RESOLVE_TEST_PROBLEM", "fwd fp32 lengths b=2 h=1 s=8 d=64"}});
  const std::string words = "beside generic: o differs by at most ";
  ASSERT_THAT(text, HasSubstr(words));
  EXPECT_LT(std::stod(text.substr(text.find(words) + words.size())), 1e-3) << text;
}

// The call itself is complete when the other target is tried.
TEST(Verify, ATargetThatCannotRunHereIsReported) {
  for (const std::string target : {"cpu-avx512bf16", "cpu-amx", "sm_90a", "gfx942"}) {
    const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()},
                                       {"REGARD_CPU_TARGET", "cpu-avx2"},
                                       {"RESOLVE_TEST_PROBLEM", built_in[0]},
                                       {"REGARD_VERIFY", target}});
    EXPECT_THAT(text, HasSubstr("\noutput "));
    const bool of_cpu = target.starts_with("cpu") && text.find(": REGARD_VERIFY") == std::string::npos;
    EXPECT_THAT(text, HasSubstr(of_cpu ? " beside " + target + ": o differs by"
                                       : "mask=causal: REGARD_VERIFY=" + target + ": "));
  }
}

TEST(Verify, TheOracleRunsBesideTheCall) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_VERIFY", "oracle"}});
  EXPECT_THAT(text, HasSubstr("beside oracle"));
  EXPECT_THAT(text, HasSubstr("\"ok\":true"));
}

TEST(Verify, AnInterruptionEndsTheCall) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()},
                                     {"REGARD_CPU_TARGET", "cpu-avx2"},
                                     {"REGARD_VERIFY", "cpu-generic"}},
                                    "IsInterruptedWhereTheLiveKernelIsReady");
  EXPECT_THAT(text, HasSubstr("interrupted while a kernel was being compiled"));
  EXPECT_THAT(text, Not(HasSubstr("\noutput ")));
}

TEST(Info, CanBeInterrupted) {
  const std::string folder = fresh_folder(), cxx = compiler(folder + "/c++", "exec sleep 60", "");
  EXPECT_THAT(
      in_child({{"REGARD_CACHE_DIR", folder}, {"REGARD_CXX", cxx}}, "IsInterruptedWhereNothingIsReady"),
      HasSubstr("info: interrupted"));
}

TEST(Verify, AnUnknownNameIsReported) {
  const std::string text =
      in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_VERIFY", "quickest_one"}});
  const std::string sentence = "unknown family, kernel or target 'quickest_one'; one of: oracle, cpu-amx, ";
  EXPECT_THAT(text, HasSubstr("REGARD_VERIFY: " + sentence));
  EXPECT_EQ(text.find(sentence), text.rfind(sentence)) << text;
}

}  // namespace
