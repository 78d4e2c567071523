// kernels/portable/append.cu: groups of lanes write rows of new tokens into the cache, or rotate rows of
// queries.
#include "kernels/portable/append_schedule.h"

#include <algorithm>
#include <bit>

#include "plan/cost.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

constexpr AlgorithmField required[] = {&Algorithm::warps};

std::span<const Rule> rules() {
  static constexpr Rule list[] = {{"launch_fits", launch_fits},
                                  {"cache_type_on_target", cache_type_on_target}};
  return list;
}

/// With few tokens each head has lanes of its own; with many, lanes handle several heads of a token, whose
/// place they find once.
PortableAppendSchedule schedule_of(const Problem& p, const Target& target) {
  PortableAppendSchedule schedule;
  const std::int64_t columns = std::max(p.d, p.dv);
  while (append_columns_of_lane << schedule.lane_bits < columns && 1 << schedule.lane_bits < target.wave)
    ++schedule.lane_bits;
  constexpr std::int64_t threads_of_unit = 512, most_heads = 8;
  const std::int64_t threads = product({new_tokens(p), p.hk, std::int64_t{1} << schedule.lane_bits}),
                     enough = threads_of_unit * std::max<std::int64_t>(target.units, 1);
  while (threads >> (schedule.head_bits + 1) >= enough &&
         2 << schedule.head_bits <= std::min(p.hk, most_heads))
    ++schedule.head_bits;
  return schedule;
}

Seconds seconds(const Plan& plan, const Stage&) {
  return bytes_of_append(plan.problem) / chip_bytes_per_second(plan);
}

std::vector<ScheduleNumber> numbers(const Schedule& schedule) {
  const auto own = schedule.as<PortableAppendSchedule>();
  return {{"lane_bits", own.lane_bits}, {"head_bits", own.head_bits}};
}

}  // namespace

Stage append_on_gpu(const Problem& p, const Target& target) {
  const Target::Tile* tile = first_tile(target, portable_append.name);
  const std::int64_t warps = tile == nullptr ? 1 : tile->algorithm.warps;
  const PortableAppendSchedule schedule = schedule_of(p, target);
  const std::int64_t rows_of_block = warps * target.wave >> schedule.lane_bits;
  const auto blocks = [&](std::int64_t tokens, std::int64_t heads) {
    const std::int64_t parts = ceil_divide(heads, std::int64_t{1} << schedule.head_bits);
    return ceil_divide(product({tokens, parts}), rows_of_block);
  };
  const std::int64_t grid =
      sum({blocks(new_tokens(p), p.hk), rotates_queries(p) ? blocks(query_tokens(p), p.hq) : 0});
  Stage stage = stage_of(p, target, portable_append, tile, grid);
  stage.schedule = Schedule(schedule);
  return stage;
}

Result<Plan> plan_portable_append(const Problem& problem, const Target& target, const Target::Tile&,
                                  const PlanOptions& options) {
  Plan plan = start(problem, target, options);
  plan.stages = {append_on_gpu(problem, target)};
  return finish(std::move(plan));
}

const Kernel portable_append{.name = "portable_append",
                             .depends_on = cache_types,
                             .schedule = {"PortableAppendSchedule", sizeof(PortableAppendSchedule), numbers},
                             .required = required,
                             .rules = rules,
                             .seconds = seconds};

}  // namespace regard
