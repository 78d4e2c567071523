// kernels/portable/bits.cu: each block writes some tiles of the bits.
#include <algorithm>

#include "kernels/portable/bits_schedule.h"
#include "plan/cost.h"
#include "plan/function_bits.h"
#include "plan/function_words.h"
#include "plan/kernels/compiled_mask.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// A few operations for each pair of a row and a key.
Seconds seconds(const Plan& plan, const Stage& stage) {
  constexpr double pairs_per_second_of_unit = 2e10;
  const auto tiles = static_cast<double>(stage.grid * stage.schedule.as<PortableBitsSchedule>().tiles);
  return tiles * map_tile * map_tile / (pairs_per_second_of_unit * std::max(plan.workers, 1));
}

/// A block of several tiles computes once what depends on their rows; but every unit should have blocks.
std::int64_t tiles_of_block(const Plan& plan, std::int64_t all_tiles) {
  constexpr std::int64_t least = 4, blocks_of_unit = 16;
  std::int64_t tiles = least;
  while (tiles < most_mask_tiles && all_tiles / (2 * tiles) >= plan.workers * blocks_of_unit) tiles *= 2;
  return tiles;
}

}  // namespace

Stage write_bits_on_gpu(const Plan& plan, const BitsShape& shape) {
  const Problem& p = plan.words->functions;
  const Target& target = *plan.target;
  KernelKey key = key_of(p, target, portable_bits, nullptr);
  key.algorithm.warps = mask_threads / target.wave;
  const std::int64_t rows = product({shape.batches, shape.heads, map_tiles(p.sq)}), keys = map_tiles(p.sk),
                     tiles = tiles_of_block(plan, product({rows, keys})),
                     grid = product({rows, ceil_divide(keys, tiles)});
  PortableBitsSchedule schedule{shape.strides(), mask_schedule(p), tiles};
  Stage stage = stage_of(portable_bits, std::move(key), grid);
  stage.shared_bytes = portable_bits.dynamic_shared_bytes(stage.key);
  stage.schedule = Schedule(schedule);
  stage.schedule.point(&PortableBitsSchedule::words, plan.bits);
  return stage;
}

const Kernel portable_bits{
    .name = "portable_bits",
    .depends_on = mask_function,
    .schedule = {"PortableBitsSchedule", sizeof(PortableBitsSchedule)},
    .seconds = seconds,
    .dynamic_shared_bytes = [](const KernelKey&) -> std::int64_t { return mask_memory; }};

}  // namespace regard
