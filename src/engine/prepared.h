// A plan with its kernels, made once per problem and shared by everyone who asks for the same one.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/resolve.h"
#include "engine/tuning.h"
#include "kernels/arguments.h"
#include "plan/plan.h"
#include "problem/tensors.h"

namespace regard {

/// The caller's options besides the problem; part of a remembered plan's identity.
struct EngineOptions {
  std::string_view target;     ///< empty: the best of this machine
  std::string_view family;     ///< empty: any
  int threads = 0;             ///< 0: the setting or all cores
  std::string_view functions;  ///< a word of FunctionsBy, or empty
};

class PreparedPlan {
 public:
  /// The plan in use and its kernels, in stage order.
  struct Ready {
    const Plan* plan;
    Arguments constants;  ///< the same in every call
    std::vector<std::shared_ptr<const LoadedKernel>> kernels;
    std::string fallback_reason;  ///< empty, or why the fallback is used
  };

  PreparedPlan(Plan best, std::optional<Plan> fallback);
  ~PreparedPlan();
  PreparedPlan(const PreparedPlan&) = delete;
  PreparedPlan& operator=(const PreparedPlan&) = delete;

  const Plan& best() const { return best_; }
  /// As the caller gave it, whichever words stand in for its functions.
  const Problem& problem() const { return given_problem(best_); }
  const TensorSpecs& specs() const { return specs_; }
  /// Enough for whichever plan is used in the end.
  std::int64_t workspace_bytes() const;

  /// Gets every kernel at the first call; later calls are one atomic load.
  Result<const Ready*> ready();
  /// The fallback instead of the best plan, for tensors that the latter cannot read, as `why` says.
  bool has_fallback() const { return fallback_.has_value(); }
  Result<const Ready*> fallback_ready(const std::string& why);
  /// The plan that takes these tensors, with its kernels, and the tensors as these take them, maybe in
  /// `storage`.
  Result<const Ready*> ready_for(const regard_arguments& given, regard_arguments& storage,
                                 const regard_arguments*& taken);
  /// nullptr until ready() succeeded.
  const Ready* ready_if_prepared() const { return ready_.load(std::memory_order_acquire); }
  /// The same, or the fallback if that has been used so far.
  const Ready* answering() const {
    const Ready* best = ready_if_prepared();
    return best != nullptr ? best : fallback_ready_.load(std::memory_order_acquire);
  }

 private:
  friend class SharedPlan;

  Result<Ready> kernels_of_fallback(const std::string& why) const;

  std::atomic<std::int64_t> owners_{0};
  Plan best_;
  TensorSpecs specs_;
  std::optional<Plan> fallback_;  ///< the generic or the portable kernels, where they can be used instead
  std::atomic<const Ready*> ready_{nullptr}, fallback_ready_{nullptr};
};

/// One of a plan's owners. The count is in the plan, so that the C ABI's handle is the plan itself and making
/// one allocates nothing.
class SharedPlan {
 public:
  explicit SharedPlan(PreparedPlan* plan) : plan_(plan) {
    plan_->owners_.fetch_add(1, std::memory_order_relaxed);
  }
  SharedPlan(const SharedPlan& other) : SharedPlan(other.plan_) {}
  SharedPlan(SharedPlan&& other) noexcept : plan_(std::exchange(other.plan_, nullptr)) {}
  SharedPlan& operator=(SharedPlan other) noexcept {
    std::swap(plan_, other.plan_);
    return *this;
  }
  ~SharedPlan() {
    if (plan_ != nullptr && plan_->owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete plan_;
  }

  PreparedPlan* operator->() const { return plan_; }
  PreparedPlan& operator*() const { return *plan_; }

  /// Transfers this owner's share to the caller, who gives it back with `taken`.
  PreparedPlan* release() { return std::exchange(plan_, nullptr); }
  static SharedPlan taken(PreparedPlan* plan) {
    SharedPlan shared(plan);
    plan->owners_.fetch_sub(1, std::memory_order_relaxed);
    return shared;
  }

 private:
  PreparedPlan* plan_;
};

/// The remembered plan of a problem, or a new one. A problem seen before costs one hash and one comparison,
/// no lock and no allocation.
Result<SharedPlan> prepared_plan(const Problem&, const EngineOptions&);

/// The target and plan options that EngineOptions, the settings and tuning records stand for.
struct PlanRequest {
  const Target* target;
  PlanOptions options;
  Recorded recorded;  ///< what tuning records say about the problem
};
Result<PlanRequest> plan_request(const Problem&, const EngineOptions&);

}  // namespace regard
