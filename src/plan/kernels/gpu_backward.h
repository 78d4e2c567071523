// The stages around a main kernel of backward on a GPU, and the workspace that they share.
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
  std::int64_t part_heads = 1;     ///< query heads of a group that one block handles
  std::int64_t side_by_side = 1;   ///< (batch, K/V head) pairs, or parts of their groups, that run together
  bool keys_descend = false;       ///< blocks of the last keys run first
  bool bias_in_turn = false;       ///< one block handles everything that shares a bias gradient
  /// If blocks share the keys of a K/V head: columns of the sums of dK and dV; multiples of 8. 0: each block
  /// stores its own result.
  std::int64_t grad_k_columns = 0, grad_v_columns = 0;
  /// The first block to reach a tile of dQ stores it; otherwise sums start as zeros.
  bool first_stores = false;
  std::int64_t tickets = 0;  ///< counters that start at 0, as turns do
  std::int64_t turns = 0;    ///< counters that start at 0
};

/// Which dimensions share one elementwise bias whose gradient is requested.
struct SharedBias {
  bool batches, heads;
  explicit SharedBias(const Problem&);
  bool any() const { return batches || heads; }
};

/// Tiles of block_q rows of all query heads, in the order of their padded rows.
std::int64_t query_tiles(const Problem&, std::int64_t block_q);

/// With a bounded right edge, blocks of keys reach a tile of queries one after the other starting with the
/// last one, if each goes through its tiles from the first one on: blocks that take turns then do not wait.
bool has_right_edge(const Problem&);

/// Of how many query heads the L2 cache has room for so many rows of Q, dO and the sum of dQ; it can be 0.
std::int64_t query_heads_in_cache(const Problem&, std::int64_t rows);

/// Where blocks have unequal sizes, those of this many pairs of batch and K/V head at least run together,
/// since the short blocks of a single pair leave most multiprocessors without work at its end.
inline constexpr std::int64_t least_pairs = 2;

/// Query heads of a group that a block handles: all, or fewer if there are few blocks; under a mask, which
/// makes some blocks short, twice as many blocks are needed, and their query heads must fit in the cache.
/// Their sums of dK and dV are then added in memory, in no fixed order. `blocks`: blocks of keys of all K/V
/// heads.
std::int64_t heads_of_part(const Plan&, std::int64_t blocks);

/// Adds the stages, with `main` in the middle, and the workspace. All have the same schedule.
Result<Plan> finish_gpu_backward(Plan, Stage main, const GpuBackward&);

std::vector<ScheduleNumber> backward_schedule_numbers(const Schedule&);
/// The schedule of every kernel of backward on a GPU.
inline constexpr KernelSchedule gpu_backward_schedule{"GpuBackwardSchedule", sizeof(GpuBackwardSchedule),
                                                      backward_schedule_numbers};

}  // namespace regard
