#include "emulated_hip/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compile/render.h"
#include "emulated_hip/kernel.h"
#include "engine/bind.h"
#include "engine/bind_function.h"
#include "oracle/oracle.h"
#include "plan/kernels/kernels.h"
#include "plan/plan.h"
#include "plan/target.h"
#include "support/map_mistakes.h"
#include "support/part.h"

namespace regard::test {
namespace {

constexpr std::size_t guard = 256, alignment = 256;

/// Starts as NaN, and the memory after it must stay NaN.
class Workspace {
 public:
  explicit Workspace(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)), memory_(bytes_ + guard + alignment, 0xff) {}

  std::uint8_t* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (alignment - address % alignment);
  }
  bool kept_its_bounds() {
    return std::all_of(data() + bytes_, data() + bytes_ + guard, [](std::uint8_t x) { return x == 0xff; });
  }

 private:
  std::size_t bytes_;
  std::vector<std::uint8_t> memory_;
};

/// Problems that only differ in their numbers have the same kernels.
const HipKernel& compiled_once(const std::string& source, const std::string& chip, const std::string& name) {
  static std::map<std::pair<std::string, std::string>, HipKernel> kernels;
  return kernels.try_emplace({chip, source}, source, chip, "", name.c_str()).first->second;
}

std::string run(const Plan& plan, const Stage& stage, const regard_arguments& given, const Change& change,
                int seed, BoundArguments& bound, std::uint8_t* workspace, std::string* lds) {
  if (stage.grid == 0) return {};
  const Result<Rendered> rendered = render(stage.key);
  if (!rendered) return rendered.error().message;
  const bool is_main = stage.key.algorithm.kernel == portable_forward.name ||
                       stage.key.algorithm.kernel == portable_backward.name;
  const HipKernel& kernel = compiled_once(is_main && change ? change(rendered->source) : rendered->source,
                                          plan.target->name, rendered->symbol);
  stage.schedule.write(bound.schedule, plan.workspace, workspace);
  bind_mask(plan, stage, given, bound.schedule);
  const auto threads = static_cast<unsigned>(stage.key.algorithm.warps * plan.target->wave);
  std::string wrong = kernel.error(
      {static_cast<unsigned>(stage.grid), threads, static_cast<unsigned>(stage.shared_bytes)}, &bound, seed);
  if (is_main && lds != nullptr) *lds = lds_report();
  return wrong;
}

}  // namespace

std::string compute_on(const std::string& chip, Case& c, const Change& change, int seed,
                       const std::string& family, std::string* lds) {
  const Result<const Target*> target = find_target(chip);
  if (!target) return target.error().message;
  const Result<Plan> planned = plan(c.problem(), **target, {.family = family});
  if (!planned) return planned.error().message;
  Workspace workspace(planned->workspace.total);
  BoundArguments bound{bind(*planned, c.arguments(), workspace.data()), {}};
  for (const Stage& stage : planned->stages)
    if (std::string wrong = run(*planned, stage, c.arguments(), change, seed, bound, workspace.data(), lds);
        !wrong.empty())
      return wrong;
  if (!workspace.kept_its_bounds()) return "wrote past the workspace";
  return map_mistakes(*planned, c.arguments(), workspace.data());
}

std::string mistakes_on(const std::string& chip, const std::string& problem, const Change& change, int seed,
                        const std::string& family, const CaseOptions& options, std::string* lds) {
  Case c(problem, options);
  auto expected = oracle::run(c.problem(), c.arguments(), {2, 0, 0});
  if (std::string wrong = compute_on(chip, c, change, seed, family, lds); !wrong.empty()) return wrong;
  // What was written into the cache is read back.
  if (writes_cache(c.problem())) expected = oracle::run(c.problem(), c.arguments(), {2, 0, 0});
  return expected ? c.mistakes(*expected) : expected.error().message;
}

void expect_right(const std::string& chip, const std::string& problem) {
  if (!takes_next_problem()) return;
  EXPECT_EQ(mistakes_on(chip, problem), "") << problem << " on " << chip;
}

}  // namespace regard::test
