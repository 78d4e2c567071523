#include "engine/prepared.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/process_lifetime.h"
#include "base/settings.h"
#include "engine/bind.h"
#include "engine/bind_words.h"
#include "engine/choice.h"
#include "engine/counters.h"
#include "engine/machine.h"

namespace regard {
namespace {

Result<PreparedPlan::Ready> ready_kernels(const Plan& plan, bool* declarable = nullptr) {
  PreparedPlan::Ready ready{&plan, constants(plan), {}, {}};
  for (const Stage& stage : plan.stages) {
    Result<std::shared_ptr<const LoadedKernel>> kernel = resolve(stage.key, declarable);
    if (!kernel) return tl::unexpected(kernel.error());
    ready.kernels.push_back(std::move(*kernel));
  }
  return ready;
}

}  // namespace

PreparedPlan::PreparedPlan(Plan best, std::optional<Plan> fallback)
    : best_(std::move(best)), specs_(tensor_specs(given_problem(best_))), fallback_(std::move(fallback)) {}

PreparedPlan::~PreparedPlan() {
  delete ready_.load();
  delete fallback_ready_.load();
}

std::int64_t PreparedPlan::workspace_bytes() const {
  return std::max(best_.workspace.total, fallback_ ? fallback_->workspace.total : 0);
}

Result<const PreparedPlan::Ready*> PreparedPlan::ready() {
  if (const Ready* known = ready_if_prepared()) return known;
  bool declarable = false;
  Result<Ready> found = ready_kernels(best_, &declarable);
  if (is_interrupted(found)) return tl::unexpected(found.error());
  if (!found && declarable) found.error().message += how_to_declare(best_);
  if (is_scarce(found) && fallback_) {  // the best plan is tried again at the next call
    const Result<const Ready*> other = fallback_ready(found.error().message);
    if (other || is_interrupted(other)) return other;
  }
  if (!found && found.error().kind == ErrorKind::no_kernel && fallback_)
    found = kernels_of_fallback(found.error().message);
  if (!found) return tl::unexpected(found.error());
  // Threads that arrive here together find the same kernels (resolve is single flight); the first result is
  // kept.
  return &publish(ready_, std::make_unique<const Ready>(std::move(*found)));
}

Result<const PreparedPlan::Ready*> PreparedPlan::fallback_ready(const std::string& why) {
  if (const Ready* known = fallback_ready_.load(std::memory_order_acquire)) return known;
  Result<Ready> found = kernels_of_fallback(why);
  if (!found) return tl::unexpected(found.error());
  return &publish(fallback_ready_, std::make_unique<const Ready>(std::move(*found)));
}

Result<const PreparedPlan::Ready*> PreparedPlan::ready_for(const regard_arguments& given,
                                                           regard_arguments& storage,
                                                           const regard_arguments*& taken) {
  Result<const regard_arguments*> in_roles = in_roles_of_words(best_, given, storage);
  if (!in_roles && !fallback_) return tl::unexpected(in_roles.error());
  Result<const Ready*> found = in_roles ? ready() : fallback_ready(in_roles.error().message);
  if (!found) return found;
  if (found.value()->plan != &best_) in_roles = in_roles_of_words(*found.value()->plan, given, storage);
  if (!in_roles) return tl::unexpected(in_roles.error());
  taken = *in_roles;
  return found;
}

Result<PreparedPlan::Ready> PreparedPlan::kernels_of_fallback(const std::string& why) const {
  Result<Ready> found = ready_kernels(*fallback_);
  if (is_interrupted(found)) return found;
  if (!found) {  // report the first failure, which a user can fix
    return fail(found.error().kind, fmt::format("{}{}the fallback cannot answer either: {}", why,
                                                why.ends_with('\n') ? "" : "; ", found.error().message));
  }
  found->fallback_reason = why;
  ++counters().fallbacks;
  if (fallback_->generic && fallback_->cost_seconds > 2 * best_.cost_seconds) {
    warn_once(fmt::format("the generic kernels answer '{}', which is expected to be slow: {}",
                          print(problem()), why));
  }
  if (log_enabled("plan"))
    log_line("plan", fmt::format("{}: the fallback answers: {}", print(problem()), why));
  return found;
}

Result<PlanRequest> plan_request(const Problem& problem, const EngineOptions& options) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const gpu::Backend* const backend = gpu::find_backend(options.target);
  const Result<const Target*> target = options.target.empty() ? best_target()
                                       : backend != nullptr   ? best_gpu_target(*backend)
                                                              : find_target(options.target);
  if (!target) return tl::unexpected(target.error());
  const Result<int> threads = thread_count(options.threads);
  if (!threads) return tl::unexpected(threads.error());
  const Result<FunctionsBy> functions = functions_by(options.functions);
  if (!functions) return tl::unexpected(functions.error());

  PlanRequest request{*target, {}, {}};
  request.options.threads = *threads;
  request.options.family = options.family;
  request.options.functions = *functions;
  request.options.strict = current->strict;
  for (const std::string_view name : current->disable.items()) request.options.disabled.emplace_back(name);
  if (!options.family.empty()) return request;  // the caller names the kernels
  Result<Recorded> found = recorded(problem, **target, *threads);
  if (!found) return tl::unexpected(found.error());
  request.recorded = std::move(*found);
  request.options.recorded = request.recorded.candidate;
  request.options.choose = current_choice();
  return request;
}

}  // namespace regard
