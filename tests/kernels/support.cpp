#include "kernels/support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>

#include "abi/handles.h"
#include "base/text.h"
#include "engine/machine.h"
#include "support/map_mistakes.h"
#include "support/part.h"

namespace regard::test {

namespace {

void expect_ok(regard_status status) {
  EXPECT_EQ(status, REGARD_OK) << regard_status_message();
}

/// The tensors of a case on a GPU.
class OnGpu {
 public:
  OnGpu(Case& c, const std::string& target) : case_(c), arguments_(c.arguments()) {
    for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
      const auto role = static_cast<regard_role>(i);
      const std::span<std::uint8_t> home = c.memory(role);
      regard_tensor& tensor = arguments_.tensor[i];
      if (tensor.data == nullptr || home.empty()) continue;
      const std::int64_t offset = static_cast<std::uint8_t*>(tensor.data) - home.data();
      expect_ok(regard_memory_allocate(target.c_str(), std::ssize(home), &memory_[i]));
      if (memory_[i] == nullptr) continue;
      expect_ok(regard_memory_copy(memory_[i], home.data(), std::ssize(home)));
      tensor.data = static_cast<std::uint8_t*>(memory_[i]) + offset;
    }
  }
  ~OnGpu() {
    for (void* memory : memory_) regard_memory_free(memory);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  const regard_arguments& arguments() const { return arguments_; }

  /// Copies everything, so that writes outside of the outputs are seen too.
  void fetch() {
    for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
      const std::span<std::uint8_t> home = case_.memory(static_cast<regard_role>(i));
      if (memory_[i] != nullptr) expect_ok(regard_memory_copy(home.data(), memory_[i], std::ssize(home)));
    }
  }

 private:
  Case& case_;
  regard_arguments arguments_;
  std::array<void*, REGARD_ROLE_COUNT> memory_{};
};

/// The workspace of a plan, on the device where it runs. It starts as NaN, every fourth one as zeros, and the
/// memory after it must stay NaN.
class Workspace {
 public:
  explicit Workspace(const regard_plan* plan)
      : bytes_(regard_plan_workspace_bytes(plan)),
        poisoned_(static_cast<std::size_t>(bytes_) + guard + 64, 0xff) {
    static std::atomic<unsigned> number{0};
    const bool on_gpu = regard_plan_on_gpu(plan) != 0;
    const auto address = reinterpret_cast<std::uintptr_t>(poisoned_.data());
    data_ = poisoned_.data() + (on_gpu ? 0 : (address + 63) / 64 * 64 - address);
    if (number++ % 4 == 0) std::fill_n(data_, bytes_, std::uint8_t{0});
    if (!on_gpu) return;
    expect_ok(regard_memory_allocate(regard_plan_target(plan), bytes_ + guard, &on_gpu_));
    expect_ok(regard_memory_copy(on_gpu_, poisoned_.data(), bytes_ + guard));
    data_ = static_cast<std::uint8_t*>(on_gpu_);
  }
  ~Workspace() { regard_memory_free(on_gpu_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  std::uint8_t* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  std::vector<std::uint8_t> on_host() const {
    std::vector<std::uint8_t> copy(static_cast<std::size_t>(bytes_));
    expect_ok(regard_memory_copy(copy.data(), data_, bytes_));
    return copy;
  }
  bool kept_its_bounds() const {
    std::vector<std::uint8_t> behind(guard);
    expect_ok(regard_memory_copy(behind.data(), data_ + bytes_, guard));
    return std::ranges::all_of(behind, [](std::uint8_t byte) { return byte == 0xff; });
  }

 private:
  static constexpr std::int64_t guard = 256;

  std::int64_t bytes_;
  std::vector<std::uint8_t> poisoned_;
  void* on_gpu_ = nullptr;
  std::uint8_t* data_ = nullptr;
};

/// Of the plan that has run, with the tensors of the case.
std::string mistakes_of_map(const regard_plan* plan, const Case& c, const Workspace& workspace) {
  const auto ready = c_api::plan_of(plan)->ready();
  if (!ready || (*ready)->plan->bits == WorkspaceLayout::none) return {};
  std::vector<std::uint8_t> there = workspace.on_host();
  return map_mistakes(*(*ready)->plan, c.arguments(), there.data());
}

regard_status run(const regard_plan* plan, const Path& path, const regard_arguments& arguments,
                  const Case& c) {
  const Workspace workspace(plan);
  regard_status status = REGARD_OK;
  for (int i = 0; i < path.runs && status == REGARD_OK; ++i)
    status = regard_plan_run(plan, &arguments, workspace.data(), workspace.bytes(), nullptr);
  if (status == REGARD_OK && regard_plan_on_gpu(plan) != 0)
    status = regard_stream_wait(regard_plan_target(plan), nullptr);
  if (status == REGARD_OK && !workspace.kept_its_bounds())
    ADD_FAILURE() << c.description() << ": wrote past the end of the workspace";
  if (status == REGARD_OK)
    if (const std::string wrong = mistakes_of_map(plan, c, workspace); !wrong.empty())
      ADD_FAILURE() << c.description() << " on " << path.target << ": " << wrong;
  return status;
}

regard_status run(const regard_plan* plan, const Path& path, Case& c) {
  if (regard_plan_on_gpu(plan) == 0) return run(plan, path, c.arguments(), c);
  OnGpu there(c, path.target);
  const regard_status status = run(plan, path, there.arguments(), c);
  if (status == REGARD_OK) there.fetch();
  return status;
}

/// REGARD_TEST_TARGETS=sm_90a,sm_80 runs the tests on those targets instead.
std::vector<std::string> asked_targets() {
  std::vector<std::string> names;
  const char* const text = std::getenv("REGARD_TEST_TARGETS");
  for (const std::string_view name : split(text == nullptr ? "" : text, ",")) {
    if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

}  // namespace

bool is_gpu(const std::string& target) {
  const Result<const Target*> found = find_target(target);
  return found && (*found)->on_gpu();
}

std::vector<std::string> runnable_targets() {
  if (std::vector<std::string> asked = asked_targets(); !asked.empty()) return asked;
  std::vector<const Target*> found;
  for (const Target& target : targets().value()) {
    if (target.on_cpu() && runnable(target) && !target.has(Feature::amx_emulated)) found.push_back(&target);
  }
  std::vector<std::string> names;
  for (const Target* target : found) names.push_back(target->name);
  return names;
}

std::string run(Case& c, const Path& path) {
  regard_problem* problem = nullptr;
  regard_plan_options options = REGARD_PLAN_OPTIONS_INIT;
  options.target = path.target.empty() ? nullptr : path.target.c_str();
  options.family = path.family.empty() ? nullptr : path.family.c_str();
  options.threads = path.threads;
  options.functions = path.functions.c_str();
  regard_plan* plan = nullptr;
  regard_status status = regard_problem_parse(print(c.problem()).c_str(), &problem);
  if (status == REGARD_OK) status = regard_plan_create(problem, &options, &plan);
  if (status == REGARD_OK) status = run(plan, path, c);
  regard_plan_destroy(plan);
  regard_problem_destroy(problem);
  return status == REGARD_OK ? "" : regard_status_message();
}

void expect_right(const std::string& text, const Path& path, const CaseOptions& options) {
  expect_right_by_each(text, {path}, options);
}

void expect_right_by_each(const std::string& text, const std::vector<Path>& paths,
                          const CaseOptions& options) {
  if (!takes_next_problem()) return;
  Case c(text, options);
  const Problem& p = c.problem();
  const std::int64_t keys = p.b * p.hq * p.sk, most = std::int64_t{1} << 26;
  oracle::Options sample{2, 0, 0};
  if (p.pass == Pass::fwd && keys * p.sq > most) sample.max_rows = std::max<std::int64_t>(most / keys, 8);
  auto expected = oracle::run(p, c.arguments(), sample);
  ASSERT_TRUE(expected) << expected.error().message;
  for (const Path& path : paths) {
    c.poison_outputs();
    const std::string refusal = run(c, path);
    // What was written into the cache is read back.
    if (writes_cache(p)) expected = oracle::run(p, c.arguments(), sample);
    const std::string wrong = refusal.empty() ? c.mistakes(*expected, sample.max_rows > 0) : refusal;
    if (!wrong.empty())
      ADD_FAILURE() << c.description() << " on " << path.target << " " << path.family << ": " << wrong;
  }
}

void expect_all_right(const std::vector<std::string>& texts, const Path& path, const CaseOptions& options) {
  for (const std::string& text : texts) expect_right(text, path, options);
}

void expect_same_bits(const std::string& text, const Path& first, const Path& second) {
  if (!takes_next_problem()) return;
  Case c(text);
  ASSERT_EQ(run(c, first), "") << c.description();
  std::vector<std::vector<std::uint8_t>> bytes;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (tensor_spec(c.problem(), role).use == REGARD_OUTPUT) bytes.push_back(c.bytes(role));
  }
  c.poison_outputs();
  ASSERT_EQ(run(c, second), "") << c.description();
  std::size_t n = 0;
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const auto role = static_cast<regard_role>(i);
    if (tensor_spec(c.problem(), role).use != REGARD_OUTPUT) continue;
    EXPECT_TRUE(c.bytes(role) == bytes[n++]) << c.description() << ": " << role_name(role);
  }
}

}  // namespace regard::test
