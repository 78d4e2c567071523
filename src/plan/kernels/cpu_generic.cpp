// The generic kernels: one stage and no workspace except the threads' scratch, for any problem.
#include <algorithm>

#include "kernels/cpu/generic_layout.h"
#include "plan/cost.h"
#include "plan/function_bits.h"
#include "plan/function_ranges.h"
#include "plan/function_steps.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"
#include "plan/stage.h"
#include "problem/functions.h"

namespace regard {
namespace {

/// The plan of one stage, and what it needs to interpret the problem's functions.
Result<Plan> one_stage(const Problem& problem, const Target& target, const PlanOptions& options,
                       Stage stage) {
  Plan plan = start(problem, target, options);
  GenericSchedule schedule{};
  if (has_function(problem)) {
    Result<FunctionSteps> steps = function_steps(problem);
    if (!steps) return tl::unexpected(steps.error());
    schedule.steps = std::ssize(steps->steps);
    stage.scratch_bytes =
        round_up(GenericLayout::sum(stage.scratch_bytes, GenericLayout::function_bytes(schedule.steps)), 64);
    plan.function = plan.workspace.add("function", steps->bytes());
    plan.steps = std::make_shared<const FunctionSteps>(std::move(*steps));
  }
  stage.schedule = Schedule(schedule);
  stage.schedule.point(&GenericSchedule::function, plan.function);
  plan.stages = {std::move(stage)};
  return finish(std::move(plan));
}

std::vector<ScheduleNumber> numbers(const Schedule& schedule) {
  const i64 steps = schedule.as<GenericSchedule>().steps;
  if (steps == 0) return {};
  return {{"steps of the function", steps}};
}

constexpr KernelSchedule generic_schedule{"GenericSchedule", sizeof(GenericSchedule), numbers};

std::int64_t bias_matrices(const Problem& p) {
  if (!p.dbias) return 0;
  return product({has_batches(p.bias) ? p.b : 1, has_heads(p.bias) ? p.hq : 1});
}

/// What is interpreted is computed for a vector of keys at a time.
Seconds seconds_to_write_bits(const Plan& plan, const Stage& stage) {
  constexpr double steps_per_second = 4e9;
  const double rows = static_cast<double>(stage.grid) * GenericLayout::tile_rows;
  const auto steps = static_cast<double>(stage.schedule.as<GenericSchedule>().steps);
  return rows * static_cast<double>(plan.problem.sk) * steps / steps_per_second /
         busy_workers(plan, stage, 1);
}

/// The kernels perform about one multiply-add at a time.
Seconds seconds(const Plan& plan, const Stage& stage) {
  constexpr double flops_per_second = 1.5e9;
  if (stage.schedule.as<GenericSchedule>().row != 0) return seconds_to_write_bits(plan, stage);
  // What is interpreted once for each row is too little to count.
  if (plan.ranges != WorkspaceLayout::none && stage.schedule.as<GenericSchedule>().steps > 0) return 0;
  return std::max(flops(plan.problem) / flops_per_second, seconds_to_read(plan, false)) /
         busy_workers(plan, stage, 1);
}

/// A stage before another kernel that interprets the mask of a problem.
Stage mask_stage(const Plan& plan, const GenericSchedule& schedule, std::int64_t grid,
                 std::int64_t scratch_bytes) {
  const Target& target = *plan.target;
  KernelKey key =
      key_of(plan.problem, target, cpu_generic_forward, first_tile(target, cpu_generic_forward.name));
  key.signature.pass = Pass::fwd;  // in backward too
  Stage stage = stage_of(cpu_generic_forward, std::move(key), grid, scratch_bytes);
  stage.schedule = Schedule(schedule);
  stage.schedule.point(&GenericSchedule::function, plan.function);
  return stage;
}

}  // namespace

Result<Plan> plan_cpu_generic_forward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                      const PlanOptions& options) {
  const std::int64_t grid =
      product({problem.b, problem.hq, ceil_divide(problem.sq, GenericLayout::tile_rows)});
  return one_stage(problem, target, options,
                   stage_of(problem, target, cpu_generic_forward, &tile, grid,
                            GenericLayout(problem.d, problem.dv).forward_bytes()));
}

Result<Plan> plan_cpu_generic_backward(const Problem& problem, const Target& target, const Target::Tile& tile,
                                       const PlanOptions& options) {
  const auto grid =
      GenericLayout::backward_grid(problem.b, problem.hq, problem.hk, problem.sq, problem.sk,
                                   bias_matrices(problem), problem.sink, !problem.grads.empty());
  return one_stage(problem, target, options,
                   stage_of(problem, target, cpu_generic_backward, &tile, grid.total(),
                            GenericLayout(problem.d, problem.dv).backward_bytes()));
}

Stage write_bits_on_cpu(const Plan& plan, const BitsShape& shape) {
  const std::int64_t steps = std::ssize(plan.steps->steps);
  Stage stage = mask_stage(
      plan, {shape.strides(), nullptr, steps, nullptr},
      product({shape.batches, shape.heads, ceil_divide(plan.problem.sq, GenericLayout::tile_rows)}),
      GenericLayout::mask_bytes(steps));
  stage.schedule.point(&GenericSchedule::words, plan.bits);
  return stage;
}

Stage write_ranges_on_cpu(const Plan& plan, const RangesShape& shape) {
  const Problem& p = plan.problem;
  const std::int64_t steps = std::ssize(plan.steps->steps);
  Stage stage =
      mask_stage(plan, {{}, nullptr, steps, nullptr},
                 product({p.varlen ? p.b : shape.batches, ceil_divide(p.sq, GenericLayout::tile_rows)}),
                 GenericLayout::function_bytes(steps));
  stage.schedule.point(&GenericSchedule::ranges_to_write, plan.ranges);
  return stage;
}

const Kernel cpu_generic_forward{
    .name = "cpu_generic_forward", .depends_on = pass_only, .schedule = generic_schedule, .seconds = seconds};
const Kernel cpu_generic_backward{.name = "cpu_generic_backward",
                                  .depends_on = pass_only,
                                  .schedule = generic_schedule,
                                  .seconds = seconds};

}  // namespace regard
