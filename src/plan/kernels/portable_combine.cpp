// kernels/portable/combine.cu: a warp merges the parts of each row.
#include "kernels/portable/combine_schedule.h"

#include <algorithm>

#include "plan/cost.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// For each part: many parts add up.
constexpr Seconds of_part = 0.05e-6;
/// fp32 rows are written and read at this fraction of the memory's rate.
constexpr double share_of_rate = 0.35;

/// The time it takes besides writing and reading the parts once.
Seconds seconds(const Plan& plan, const Stage&) {
  const auto bytes = [&](std::string_view part) {
    return static_cast<double>(plan.workspace.bytes_of(part));
  };
  const double written_and_read = 2 * (bytes("partial_o") + bytes("partial_lse"));
  return of_part * static_cast<double>(plan.splits) +
         (1 / share_of_rate - 1) * written_and_read / chip_bytes_per_second(plan);
}

constexpr AlgorithmField required[] = {&Algorithm::block_dv, &Algorithm::warps};

Stage combine_stage(const Plan& plan, std::int64_t pack_gqa) {
  const Problem& p = plan.problem;
  const Target::Tile* tile = first_tile(*plan.target, portable_combine.name);
  const std::int64_t rows = tile == nullptr ? 1 : tile->algorithm.warps;
  const std::int64_t grid = product({p.b, p.hq, ceil_divide(p.sq, rows)});
  Stage stage = stage_of(p, *plan.target, portable_combine, tile, grid, 0);
  stage.schedule = Schedule(PortableCombineSchedule{split_seen_keys_of(plan), pack_gqa});
  return stage;
}

}  // namespace

void merge_on_gpu(Plan& plan, std::int64_t pack_gqa) {
  if (plan.splits == 1) return;
  Stage stage = combine_stage(plan, pack_gqa);
  // Its code waits for the parts, if the GPU has the instruction (kernels/cuda/pdl.h).
  stage.overlaps = plan.target->has(Feature::pdl);
  merge_parts(plan, std::move(stage));
}

const Kernel portable_combine{.name = "portable_combine",
                              .depends_on = output_and_parts,
                              .schedule = {"PortableCombineSchedule", sizeof(PortableCombineSchedule)},
                              .required = required,
                              .seconds = seconds};

}  // namespace regard
