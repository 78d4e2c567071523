// The stages around a main kernel of backward on a GPU, and the workspace in which they meet.
#pragma once

#include "kernels/backward_schedule.h"
#include "plan/kernel.h"

namespace regard {

/// What a main kernel decides for the other stages.
struct GpuBackward {
  std::int64_t block_q = 0;         ///< rows of a tile of queries
  std::int64_t grad_q_columns = 0;  ///< of the sum of dQ; a multiple of 8
  GradQOrder order = GradQOrder::rows;
  std::int64_t grad_q_slices = 1;  ///< of a tile (kernels/backward_schedule.h)
  std::int64_t part_heads = 1;     ///< query heads of a group that a block goes through
  std::int64_t side_by_side = 1;   ///< (batch, K/V head) pairs, or parts of their groups, that go together
  bool keys_descend = false;       ///< blocks of the last keys go first
  bool bias_in_turn = false;       ///< a block goes through all that share a bias's gradient
  /// Where blocks share the keys of a K/V head: columns of the sums of dK and dV; multiples of 8. 0: each
  /// block stores what it has.
  std::int64_t grad_k_columns = 0, grad_v_columns = 0;
  /// The first block that comes to a tile of dQ stores it; else sums begin as zeros.
  bool first_stores = false;
  std::int64_t tickets = 0;  ///< counters that begin at 0, as turns do
  std::int64_t turns = 0;    ///< counters that begin at 0
};

/// Which dimensions share one elementwise bias whose gradient is wanted.
struct SharedBias {
  bool batches, heads;
  explicit SharedBias(const Problem&);
  bool any() const { return batches || heads; }
};

/// Tiles of block_q rows of all query heads, in the order of their padded rows.
std::int64_t query_tiles(const Problem&, std::int64_t block_q);

/// Under a bounded right edge blocks of keys reach a tile of queries one after the other from the last one
/// on, if each goes through its tiles from the first one on: those that take turns then do not wait.
bool has_right_edge(const Problem&);

/// Query heads of a group that a block goes through: all, or fewer where blocks are few; under a mask, which
/// makes some of them short, twice as many are wanted. Their sums of dK and dV then come together in memory,
/// in no order. `blocks`: of keys of all K/V heads.
std::int64_t heads_of_part(const Plan&, std::int64_t blocks);

/// Adds the stages, `main` in their middle, and the workspace. All have one schedule.
Result<Plan> finish_gpu_backward(Plan, Stage main, const GpuBackward&);

std::vector<ScheduleNumber> backward_schedule_numbers(const Schedule&);
/// Of every kernel of backward on a GPU.
inline constexpr KernelSchedule gpu_backward_schedule{"GpuBackwardSchedule", sizeof(GpuBackwardSchedule),
                                                      backward_schedule_numbers};

}  // namespace regard
