#include "plan/cost.h"

#include <algorithm>

namespace regard {
namespace {

/// Floating-point operations per second of one thread: vector lanes, two for a multiply-add, two pipes, at 3
/// GHz, and what a blocked kernel reaches of that. bf16 pairs double it.
double thread_rate(const Plan& plan, const Stage& stage) {
  if (stage.kernel.algorithm.kernel.starts_with("generic_")) return 3e9;
  const double lanes = plan.target->vector_bytes / 4.0;
  const double pairs = plan.problem.dtype == DType::bf16 && plan.target->has("bf16_dot") ? 2 : 1;
  return lanes * 2 * 3e9 * pairs;
}

}  // namespace

double cost_seconds(const Plan& plan) {
  constexpr double stage_overhead = 5e-6;  // waking the threads
  constexpr double bytes_per_second = 20e9;
  double seconds = 0;
  for (const Stage& stage : plan.stages) {
    const std::string& kernel = stage.kernel.algorithm.kernel;
    seconds += stage_overhead;
    if (kernel == "combine" || kernel == "backward_delta" || kernel == "backward_convert") continue;
    const double busy =
        std::min<double>(plan.threads, static_cast<double>(std::max<std::int64_t>(stage.grid, 1)));
    seconds += flops(plan.problem) / (thread_rate(plan, stage) * busy);
  }
  seconds += static_cast<double>(plan.workspace.total) / bytes_per_second;
  return seconds;
}

}  // namespace regard
