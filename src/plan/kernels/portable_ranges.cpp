// kernels/portable/ranges.cu: each block writes the ranges of some rows.
#include "kernels/portable/ranges_schedule.h"
#include "plan/function_ranges.h"
#include "plan/function_words.h"
#include "plan/kernels/compiled_mask.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"
#include "plan/stage.h"

namespace regard {

Stage write_ranges_on_gpu(const Plan& plan, const RangesShape& shape) {
  const Target& target = *plan.target;
  KernelKey key = key_of(plan.words->functions, target, portable_ranges, nullptr);
  key.algorithm.warps = range_threads / target.wave;
  const std::int64_t sequences = plan.problem.varlen ? plan.problem.b : shape.batches;
  PortableRangesSchedule schedule{mask_schedule(plan.words->functions), nullptr};
  Stage stage = stage_of(portable_ranges, std::move(key),
                         product({sequences, ceil_divide(plan.problem.sq, range_threads)}));
  stage.schedule = Schedule(schedule);
  stage.schedule.point(&PortableRangesSchedule::ranges_to_write, plan.ranges);
  return stage;
}

const Kernel portable_ranges{.name = "portable_ranges",
                             .depends_on = mask_function,
                             .schedule = {"PortableRangesSchedule", sizeof(PortableRangesSchedule)}};

}  // namespace regard
