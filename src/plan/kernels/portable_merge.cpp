// kernels/portable/merge.cu: a group of threads merges the caller's partial results of a row.
#include "kernels/portable/merge_schedule.h"

#include <algorithm>

#include "plan/cost.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

Seconds seconds(const Plan& plan, const Stage&) {
  const Problem& p = plan.problem;
  const double numbers = static_cast<double>(product({query_tokens(p), p.hq, p.dv}));
  const double bytes = static_cast<double>(p.parts) * static_cast<double>(bytes_of(p.dtype)) +
                       (p.accumulate ? 2 : 1) * static_cast<double>(bytes_of(p.out));
  return numbers * bytes / chip_bytes_per_second(plan);
}

std::vector<ScheduleNumber> numbers(const Schedule& schedule) {
  const auto own = schedule.as<PortableMergeSchedule>();
  return {{"threads_of_row", own.threads_of_row}, {"rows_of_block", own.rows_of_block}};
}

std::span<const Rule> rules() {
  static constexpr Rule list[] = {{"launch_fits", launch_fits}};
  return list;
}

constexpr AlgorithmField required[] = {&Algorithm::warps};

}  // namespace

Result<Plan> plan_portable_merge(const Problem& problem, const Target& target, const Target::Tile& tile,
                                 const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  const std::int64_t threads = tile.algorithm.warps * target.wave;
  PortableMergeSchedule schedule;
  schedule.parts = problem.parts;
  schedule.threads_of_row = static_cast<i32>(
      std::clamp<std::int64_t>(ceil_divide(problem.dv, merge_width * merge_vectors), 1, threads));
  schedule.rows_of_block = static_cast<i32>(threads / schedule.threads_of_row);
  const std::int64_t rows = product({query_tokens(problem), problem.hq});
  Stage stage = stage_of(problem, target, portable_merge, &tile, ceil_divide(rows, schedule.rows_of_block));
  stage.schedule = Schedule(schedule);
  plan.stages = {std::move(stage)};
  return finish(std::move(plan));
}

const Kernel portable_merge{.name = "portable_merge",
                            .depends_on = types_only,
                            .schedule = {"PortableMergeSchedule", sizeof(PortableMergeSchedule), numbers},
                            .required = required,
                            .rules = rules,
                            .seconds = seconds};

}  // namespace regard
