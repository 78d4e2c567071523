// A plan with its kernels, made once per problem and shared by everybody who asks for the same.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/resolve.h"
#include "plan/plan.h"

namespace regard {

/// What a caller may say beside the problem; part of a remembered plan's identity.
struct EngineOptions {
  std::string_view target;  ///< empty: the best of this machine
  std::string_view family;  ///< empty: any
  int threads = 0;          ///< 0: the setting or all cores
};

class PreparedPlan {
 public:
  /// The plan in use and its kernels, in stage order.
  struct Ready {
    const Plan* plan;
    std::vector<std::shared_ptr<const LoadedKernel>> kernels;
    std::string fallback_reason;  ///< empty, or why the generic kernels answer
  };

  PreparedPlan(Plan best, std::optional<Plan> fallback);
  ~PreparedPlan();
  PreparedPlan(const PreparedPlan&) = delete;
  PreparedPlan& operator=(const PreparedPlan&) = delete;

  const Plan& best() const { return best_; }
  /// Enough for whichever plan ends up in use.
  std::int64_t workspace_bytes() const;

  /// Gets every kernel at the first call; later calls are one atomic load.
  Result<const Ready*> ready();
  /// nullptr until ready() succeeded.
  const Ready* ready_if_prepared() const { return ready_.load(std::memory_order_acquire); }

 private:
  Plan best_;
  std::optional<Plan> fallback_;  ///< the generic kernels, where they may answer instead
  std::atomic<const Ready*> ready_{nullptr};
};

/// The remembered plan of a problem, or a new one. A problem seen before costs one hash and one comparison,
/// no lock and no allocation.
Result<std::shared_ptr<PreparedPlan>> prepared_plan(const Problem&, const EngineOptions&);

/// The target and plan options that EngineOptions and the settings stand for.
struct PlanRequest {
  const Target* target;
  PlanOptions options;
};
Result<PlanRequest> plan_request(const EngineOptions&);

}  // namespace regard
