// kernels/portable/bits.cu: each thread writes some of the bits of a row.
#include <algorithm>

#include "kernels/portable/bits_schedule.h"
#include "plan/cost.h"
#include "plan/function_bits.h"
#include "plan/function_words.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// The function and the types of its tensors.
Signature mask_function(const Signature& s) {
  Signature c;
  c.keep = s.keep;
  c.tensors = s.tensors;
  return c;
}

/// A few operations for each pair of a row and a key.
Seconds seconds(const Plan& plan, const Stage& stage) {
  constexpr double pairs_per_second_of_unit = 2e10;
  const double threads = static_cast<double>(stage.grid) * mask_warps * plan.target->wave;
  return threads * 32 * mask_words / (pairs_per_second_of_unit * std::max(plan.workers, 1));
}

}  // namespace

Stage write_bits_on_gpu(const Plan& plan, const BitsShape& shape) {
  const Problem& p = plan.words->functions;
  const Target& target = *plan.target;
  KernelKey key = key_of(p, target, portable_bits, nullptr);
  key.algorithm.warps = mask_warps;
  const std::int64_t grid =
      product({shape.batches, shape.heads, ceil_divide(p.sq, std::int64_t{mask_warps} * target.wave),
               ceil_divide(p.sk, std::int64_t{32} * mask_words)});
  PortableBitsSchedule schedule{shape.strides(), {}};
  for (int i = 0; i < p.numbers.count; ++i) schedule.call.numbers[i] = p.numbers.of[i].bits;
  Stage stage = stage_of(portable_bits, std::move(key), grid);
  stage.schedule = Schedule(schedule);
  stage.schedule.point(&PortableBitsSchedule::words, plan.bits);
  return stage;
}

const Kernel portable_bits{.name = "portable_bits",
                           .depends_on = mask_function,
                           .schedule = {"PortableBitsSchedule", sizeof(PortableBitsSchedule)},
                           .seconds = seconds};

}  // namespace regard
