// Where kernels come from: the same key gives the same bits from every tier, and each refusal says what was
// searched. Settings are read once per process, so each case runs in a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "regard/regard.h"

namespace {

using ::testing::HasSubstr;

/// An empty folder, with a space in its name, that goes with the test program.
std::string fresh_folder() {
  static const struct Parent {
    std::string path = (std::filesystem::temp_directory_path() / "regard resolve XXXXXX").string();
    Parent() { mkdtemp(path.data()); }
    ~Parent() { std::filesystem::remove_all(path); }
  } parent;
  static int count = 0;
  const std::string folder = parent.path + "/" + std::to_string(count++);
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  return folder;
}

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Runs `Child.DISABLED_Run` of this test program in a process of its own, with more environment; returns
/// what it printed.
std::string in_child(const Environment& environment) {
  std::string command = "env RESOLVE_TEST_CHILD=1";
  for (const auto& [name, value] : environment) command += " " + name + "='" + value + "'";
  command += " '" + std::filesystem::read_symlink("/proc/self/exe").string() +
             "' --gtest_also_run_disabled_tests --gtest_filter=Child.DISABLED_Run 2>&1";
  FILE* child = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, child)) > 0;) text.append(buffer, n);
  EXPECT_EQ(pclose(child), 0) << text;
  return text;
}

constexpr const char* not_built_in = "fwd fp32 h=1 s=40 d=23 mask=causal";
constexpr const char* built_in = "fwd fp32 h=1 s=40 d=64 mask=causal";

/// "tier" of the first stage, then the outputs' bits; or the refusal.
void run_and_print(const char* text) {
  regard_problem* problem = nullptr;
  regard_plan* plan = nullptr;
  if (regard_problem_parse(text, &problem) != REGARD_OK ||
      regard_plan_create(problem, nullptr, &plan) != REGARD_OK || regard_plan_prepare(plan) != REGARD_OK) {
    std::printf("%s", regard_status_message());
    return;
  }
  std::vector<float> q(40 * 64), o(40 * 64, 0.f);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<float>(i));
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  for (regard_role role : {REGARD_Q, REGARD_K, REGARD_V, REGARD_O}) {
    regard_use use;
    regard_problem_tensor(problem, role, &use, &arguments.tensor[role]);
    arguments.tensor[role].data = role == REGARD_O ? o.data() : q.data();
  }
  char* json = nullptr;
  regard_plan_json(plan, &json);
  if (regard_attention(problem, nullptr, &arguments) != REGARD_OK) {
    std::printf("%s", regard_status_message());
    return;
  }
  std::printf("%s\noutput %s\n", json, regard::sha256(std::as_bytes(std::span(o))).hex().c_str());
}

/// The digest of the outputs.
std::string bits(const std::string& text) {
  const std::size_t start = text.find("output ");
  return start == std::string::npos ? text : text.substr(start, 7 + 64);
}

TEST(Child, DISABLED_Run) {
  const char* other = std::getenv("RESOLVE_TEST_PROBLEM");
  run_and_print(other != nullptr ? other : not_built_in);
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
  const std::string folder = fresh_folder();
  for (const char* target : {"cpu-generic", "cpu-avx2", "cpu-avx512", "cpu-avx512bf16"}) {
    const Environment common = {
        {"REGARD_CACHE_DIR", folder}, {"REGARD_CPU_TARGET", target}, {"RESOLVE_TEST_PROBLEM", built_in}};
    Environment without = common;
    without.emplace_back("REGARD_BUILT_IN", "off");
    const std::string first = in_child(common), second = in_child(without);
    EXPECT_THAT(first, HasSubstr("\"tier\":\"built-in\"")) << target;
    EXPECT_THAT(second, HasSubstr("\"tier\":\"compile\"")) << target;
    EXPECT_EQ(bits(first), bits(second)) << target;
  }
}

TEST(Resolve, WithoutAnyCompilerTheGenericKernelAnswers) {
  const std::string text =
      in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_CXX", "/no/such/compiler"}});
  EXPECT_THAT(text, HasSubstr("generic_forward"));
  EXPECT_THAT(text, HasSubstr("fallback_reason"));
}

TEST(Resolve, StrictRefusesInsteadOfFallingBack) {
  const std::string text =
      in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_JIT", "off"}, {"REGARD_STRICT", "1"}});
  EXPECT_THAT(text, HasSubstr("REGARD_JIT=off"));
  EXPECT_THAT(text, HasSubstr("not in the cache"));
}

TEST(Resolve, AnUnwritableCacheStillComputes) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", "/proc/regard"}});
  EXPECT_THAT(text, HasSubstr("\"tier\":\"compile\""));
}

TEST(Resolve, ABadSettingIsASentence) {
  const std::string text = in_child({{"REGARD_JIT", "maybe"}});
  EXPECT_THAT(text, HasSubstr("REGARD_JIT='maybe' is not understood"));
}

TEST(Resolve, ACappedTargetIsUsed) {
  const std::string text =
      in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_CPU_TARGET", "cpu-avx2"}});
  EXPECT_THAT(text, HasSubstr("cpu-avx2"));
}

TEST(Verify, AnotherFamilyRunsBesideTheCall) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_VERIFY", "generic"}});
  EXPECT_THAT(text, HasSubstr("beside generic: o differs by at most"));
}

TEST(Verify, AnotherTargetRunsBesideTheCall) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_VERIFY", "cpu-generic"}});
  EXPECT_THAT(text, HasSubstr("beside cpu-generic: o differs by at most"));
}

TEST(Verify, TheOracleRunsBesideTheCall) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_VERIFY", "oracle"}});
  EXPECT_THAT(text, HasSubstr("beside oracle"));
  EXPECT_THAT(text, HasSubstr("\"ok\":true"));
}

TEST(Verify, ANameThatIsNothingIsReported) {
  const std::string text = in_child({{"REGARD_CACHE_DIR", fresh_folder()}, {"REGARD_VERIFY", "fastest"}});
  EXPECT_THAT(text, HasSubstr("fastest"));
}

}  // namespace
