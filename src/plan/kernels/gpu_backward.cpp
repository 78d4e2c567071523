#include "plan/kernels/gpu_backward.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/gpu_rows.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"

namespace regard {
namespace {

/// The warps of the stages around the main one, whose threads wait for memory most of the time.
constexpr std::int64_t warps = 8;
/// 16-byte vectors that a block of prepare sets to zero, if there are more blocks than rows need.
constexpr std::int64_t zeros_of_block = 4096;
/// Keys, and rows of a bias, that a block of convert handles (kernels/portable/backward_convert.cu).
constexpr std::int64_t key_rows = 64, bias_rows = 16;

/// A part of the workspace, and the member of the schedule that points to it.
struct WorkspaceFields {
  Plan& plan;
  Schedule& schedule;

  template <class T>
  int add(T* GpuBackwardSchedule::* member, std::string_view name, std::int64_t bytes) {
    const int part = plan.workspace.add(name, bytes);
    schedule.point(member, part);
    return part;
  }
};

Stage memory_stage(const Plan& plan, const Kernel& kernel, std::int64_t grid) {
  Stage stage = stage_of(plan.problem, *plan.target, kernel, nullptr, grid, 0);
  stage.key.algorithm.warps = warps;
  return stage;
}

/// When built ahead of time they have no tile to take the number of warps from.
std::vector<KernelKey> with_their_warps(const Question&, const KernelKey& key) {
  KernelKey own = key;
  own.algorithm.warps = warps;
  return {own};
}

std::int64_t bias_image_rows(const Problem& p) {
  const SharedBias shared(p);
  if (!shared.any() || p.sk == 0) return 0;
  return product({shared.batches ? 1 : p.b, shared.heads ? 1 : p.hq, p.sq});
}

/// Tiles that some row sees store the gradient of a bias that is not shared by batches or heads.
bool clears_grad_bias(const Problem& p) {
  return p.dbias && !SharedBias(p).any() && !every_row_sees_all_keys(p);
}

/// The factor of dS before it is converted to fp16, whose smallest numbers are not small compared with those
/// of a gradient if the scale is large: dS is then as large as with the usual scale of d = 64. It is
/// bounded, as fp16 has a largest number too.
double ds_scale(const Problem& p, const Target& target) {
  constexpr double most = 256;
  if (p.dtype != DType::fp16) return 1;
  const double further = target.has(Feature::flushes_subnormals) ? ds_scale_of_subnormals() : 1;
  return further * std::exp2(std::ceil(std::log2(std::clamp(8 * std::fabs(scale_of(p)), 1.0, most))));
}

}  // namespace

SharedBias::SharedBias(const Problem& p)
    : batches(p.dbias && p.b > 1 && !has_batches(p.bias)), heads(p.dbias && p.hq > 1 && !has_heads(p.bias)) {}

std::int64_t query_tiles(const Problem& p, std::int64_t block_q) {
  if (p.varlen) return product({p.hq, sum({query_tokens(p) / block_q, p.b})});
  return product({p.b, p.hq, ceil_divide(p.sq, block_q)});
}

bool has_right_edge(const Problem& p) {
  const bool window = p.mask == Mask::window || p.mask == Mask::window_top_left;
  return p.mask != Mask::none && (!window || p.window_right >= 0);
}

std::int64_t query_heads_in_cache(const Problem& p, std::int64_t rows) {
  constexpr std::int64_t cache_bytes = std::int64_t{32} << 20;
  const std::int64_t row = product({p.d + p.dv, 2}) + product({p.d, 4});
  return cache_bytes / product({std::max<std::int64_t>(rows, 1), row});
}

std::int64_t heads_of_part(const Plan& plan, std::int64_t blocks) {
  const Problem& p = plan.problem;
  const std::int64_t group = p.hq / p.hk, rounds = mask_hides_nothing(p) ? 1 : 2;
  if (p.deterministic) return group;
  const std::int64_t for_workers = ceil_divide(rounds * plan.workers, std::max<std::int64_t>(blocks, 1));
  // Blocks of unequal size get out of step, so the cache needs room for all query heads of their parts.
  const std::int64_t rows = std::min(p.sq, most_keys_of_row(p));
  const std::int64_t cached = positions_hide_nothing(p) ? group : query_heads_in_cache(p, rows) / least_pairs;
  const std::int64_t for_cache = ceil_divide(group, std::clamp<std::int64_t>(cached, 1, group));
  return ceil_divide(group, std::clamp<std::int64_t>(for_workers, for_cache, group));
}

Result<Plan> finish_gpu_backward(Plan plan, Stage main, const GpuBackward& how) {
  const Problem& p = plan.problem;
  const std::int64_t tiles = p.sq > 0 ? query_tiles(p, how.block_q) : 0, rows = product({tiles, how.block_q});
  const std::int64_t key_sums = how.grad_k_columns > 0 ? product({p.hk, key_tokens(p)}) : 0;
  const std::int64_t image_rows = bias_image_rows(p);

  GpuBackwardSchedule s;
  s.padded_rows = rows / std::max<std::int64_t>(p.varlen ? p.hq : product({p.b, p.hq}), 1);
  s.grad_q_columns = how.grad_q_columns;
  s.grad_k_columns = how.grad_k_columns;
  s.grad_v_columns = how.grad_v_columns;
  s.part_heads = how.part_heads;
  s.side_by_side =
      static_cast<i32>(std::min<std::int64_t>(how.side_by_side, std::numeric_limits<i32>::max()));
  s.keys_descend = how.keys_descend ? 1 : 0;
  s.block_q = static_cast<i32>(how.block_q);
  s.grad_q_order = how.order;
  s.grad_q_slices = static_cast<i32>(how.grad_q_slices);
  s.first_stores = how.first_stores ? 1 : 0;
  s.bias_in_turn = how.bias_in_turn ? 1 : 0;
  s.ds_scale = static_cast<float>(ds_scale(p, *plan.target));
  s.p_exponent = p_exponent_of(p.dtype);
  s.p_scale = 1.0f / (1 << p_exponent_of(p.dtype));
  s.grad_p_factor = s.ds_scale * s.p_scale;
  s.clear_grad_bias = clears_grad_bias(p) ? 1 : 0;

  const std::int64_t grad_q_bytes = product({rows, how.grad_q_columns, 4}),
                     grad_k_bytes = product({key_sums, how.grad_k_columns, 4}),
                     grad_v_bytes = product({key_sums, how.grad_v_columns, 4}),
                     grad_bias_bytes = product({image_rows, p.sk, 4}),
                     tickets_bytes = product({how.tickets, 4}), turns_bytes = product({how.turns, 4});
  std::int64_t zeroed = 0;
  for (const std::int64_t bytes : {how.first_stores ? 0 : grad_q_bytes, grad_k_bytes, grad_v_bytes,
                                   grad_bias_bytes, tickets_bytes, turns_bytes})
    zeroed = sum({zeroed, round_up(bytes, 64)});
  s.zeroed_vectors = zeroed / 16;

  Schedule schedule(s);
  WorkspaceFields fields{plan, schedule};
  fields.add(&GpuBackwardSchedule::delta, "delta", product({rows, 4}));
  fields.add(&GpuBackwardSchedule::lse_log2, "lse_log2", product({rows, 4}));
  const auto next_part = [&plan] { return static_cast<int>(plan.workspace.parts.size()); };
  int first_zeroed = next_part();
  fields.add(&GpuBackwardSchedule::grad_q_sum, "grad_q_sum", grad_q_bytes);
  if (how.first_stores) first_zeroed = next_part();
  fields.add(&GpuBackwardSchedule::grad_k_sum, "grad_k_sum", grad_k_bytes);
  fields.add(&GpuBackwardSchedule::grad_v_sum, "grad_v_sum", grad_v_bytes);
  fields.add(&GpuBackwardSchedule::grad_bias_sum, "grad_bias_sum", grad_bias_bytes);
  fields.add(&GpuBackwardSchedule::tickets, "tickets", tickets_bytes);
  fields.add(&GpuBackwardSchedule::turns, "turns", turns_bytes);
  if (zeroed > 0) schedule.point(&GpuBackwardSchedule::zeroed, first_zeroed);

  const std::int64_t row_blocks = product({p.b, p.hq, ceil_divide(p.sq, how.block_q)});
  const std::int64_t zero_blocks =
      std::min<std::int64_t>(ceil_divide(s.zeroed_vectors, zeros_of_block), 4 * plan.workers);
  const std::int64_t key_blocks = key_sums > 0 ? product({2, p.b, p.hk, ceil_divide(p.sk, key_rows)}) : 0;
  const std::int64_t bias_blocks =
      image_rows > 0 ? product({image_rows / p.sq, ceil_divide(p.sq, bias_rows)}) : 0;
  plan.stages = {memory_stage(plan, portable_backward_prepare, std::max(row_blocks, zero_blocks)),
                 std::move(main),
                 memory_stage(plan, portable_backward_convert,
                              sum({p.sink ? p.hq : 0, row_blocks, key_blocks, bias_blocks}))};
  for (Stage& stage : plan.stages) stage.schedule = schedule;
  // Their code waits for the previous stage, if the GPU has the instruction (kernels/cuda/pdl.h).
  plan.stages[1].overlaps = plan.stages[2].overlaps = plan.target->has(Feature::pdl);
  return finish(std::move(plan));
}

std::vector<ScheduleNumber> backward_schedule_numbers(const Schedule& bytes) {
  const auto s = bytes.as<GpuBackwardSchedule>();
  return {{"part_heads", s.part_heads}, {"zeroed_bytes", s.zeroed_vectors * 16}};
}

const Kernel portable_backward_prepare{.name = "portable_backward_prepare",
                                       .depends_on = types_only,
                                       .schedule = gpu_backward_schedule,
                                       .variants = with_their_warps};
const Kernel portable_backward_convert{.name = "portable_backward_convert",
                                       .depends_on = types_only,
                                       .schedule = gpu_backward_schedule,
                                       .variants = with_their_warps};

}  // namespace regard
