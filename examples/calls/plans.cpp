#include "plans.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "refusal.h"

namespace calls {
namespace {

constexpr std::size_t most_plans =
    1024;  // packed lengths change from step to step; making a plan takes microseconds

std::mutex plans_mutex;
std::optional<std::string> target = "cuda";
std::unordered_map<std::string, std::shared_ptr<const Plan>> plans;

struct Blocks {
  std::vector<std::shared_ptr<void>> all;  // the last one is the largest
  std::int64_t bytes = 0;
};

}  // namespace

Plan::~Plan() {
  te_regard_plan_destroy(plan);
  te_regard_problem_destroy(problem);
}

void use_target(const char* name) {
  const std::lock_guard lock(plans_mutex);
  target = name == nullptr ? std::nullopt : std::optional<std::string>(name);
  plans.clear();
}

std::shared_ptr<const Plan> plan_for(const std::string& text) {
  const std::lock_guard lock(plans_mutex);
  if (const auto found = plans.find(text); found != plans.end()) return found->second;
  auto made = std::make_shared<Plan>();
  require(te_regard_problem_parse(text.c_str(), &made->problem));
  te_regard_plan_options options = TE_REGARD_PLAN_OPTIONS_INIT;
  options.target = target ? target->c_str() : nullptr;
  require(te_regard_plan_create(made->problem, &options, &made->plan));
  require(te_regard_plan_prepare(made->plan));
  if (plans.size() == most_plans) plans.clear();
  return plans[text] = made;
}

std::shared_ptr<void> allocate(const Plan& plan, std::int64_t bytes) {
  const char* target = te_regard_plan_on_gpu(plan.plan) != 0 ? te_regard_plan_target(plan.plan) : nullptr;
  void* memory = nullptr;
  require(te_regard_memory_allocate(target, bytes, &memory));
  return {memory, [](void* freed) { te_regard_memory_free(freed); }};
}

std::byte* memory_of(const Plan& plan, void* stream, std::int64_t bytes) {
  thread_local std::map<std::pair<bool, void*>, Blocks> of_streams;
  const bool on_gpu = te_regard_plan_on_gpu(plan.plan) != 0;
  Blocks& blocks = of_streams[{on_gpu, stream}];
  if (bytes > blocks.bytes) {
    const std::int64_t larger = std::max(bytes, 2 * blocks.bytes);
    blocks.all.push_back(allocate(plan, larger));
    blocks.bytes = larger;
  }
  return blocks.all.empty() ? nullptr : static_cast<std::byte*>(blocks.all.back().get());
}

}  // namespace calls
