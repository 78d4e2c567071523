// kernels/sm90/backward.cu: a block of threads for each block of keys of a K/V head.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/sm90/backward_layout.h"
#include "plan/cost.h"
#include "plan/gpu_rows.h"
#include "plan/kernels/gpu_backward.h"
#include "plan/kernels/kernels.h"
#include "plan/kernels/sm90_boxes.h"
#include "plan/kernels/sm90_tile.h"
#include "plan/kernels/sm90_unsupported.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"

namespace regard {
namespace {

Sm90BackwardLayout layout_of(const Signature& s, const Algorithm& a) {
  return Sm90BackwardLayout(sm90_tile_shape(s, a));
}

std::int64_t shared_bytes(const KernelKey& key) {
  return layout_of(key.signature, key.algorithm).total();
}

/// (batch, K/V head) pairs, or parts of their groups, whose blocks of keys run together. If all blocks have
/// the same size, that is one pair at a time, so that the blocks of a head, which read the same queries, run
/// at once. Otherwise the longest blocks run first, over as many pairs as the cache has room for with one
/// query head each; pairs are divided evenly, so that none is left to run alone. Blocks with bits or ranges
/// count as equal, which was measured to be faster.
std::int64_t heads_together(const Problem& p, std::int64_t of_part) {
  if (positions_hide_nothing(p)) return 1;
  const std::int64_t together = std::max(query_heads_in_cache(p, p.sq), least_pairs);
  const std::int64_t heads = product({p.b, p.hk, ceil_divide(p.hq / p.hk, of_part)});
  return ceil_divide(heads, std::max<std::int64_t>(heads / together, 1));
}

/// Whether the sums of dQ begin as zeros, to which blocks add in any order. Then no block waits until the
/// first one has stored its dQ, but the zeros are written and read, which costs more than the wait if rows
/// see few keys; between 512 keys and this many nothing was measured (docs/notebook/hopper-backward.md). A
/// pair that adds from registers was not measured either.
bool adds_to_zeros(const Problem& p, const Sm90BackwardLayout& layout, std::int64_t block_k) {
  constexpr std::int64_t many_keys = 4096;
  if (p.deterministic || layout.grad_q == 0) return false;
  return layout.shares_keys(block_k) || most_keys_of_row(p) >= many_keys;
}

Refusal supports_features(const Question& q) {
  constexpr std::string_view instead = "portable_backward";
  const Problem& p = q.problem;
  if (bytes_of(p.dtype) != 2) return unsupported("inputs other than bf16 and fp16", instead);
  if (p.out != p.dtype) return unsupported("output of a type other than Q's", instead);
  if (p.dropout > 0 && Sm90BackwardLayout::shares_keys(q.candidate.tile->algorithm.block_k))
    return unsupported("dropout with head dims above 128", instead);
  if (p.dropout > 0 && p.softcap > 0)
    return unsupported("dropout with a soft cap", instead);  // it would spill
  return sm90_unsupported(p, instead);
}

Refusal smallest_tile(const Question& q) {
  const Problem& p = q.problem;
  const Target::Tile& tile = *q.candidate.tile;
  for (const Target::Tile& other : q.target.tiles) {
    if (other.algorithm.kernel != tile.algorithm.kernel || p.d > other.max_d || p.dv > other.max_dv) continue;
    if (other.max_d + other.max_dv >= tile.max_d + tile.max_dv) continue;
    return fmt::format("its tile is for head dims up to {}/{}; the one for {}/{} holds more", tile.max_d,
                       tile.max_dv, other.max_d, other.max_dv);
  }
  return {};
}

/// Derivatives of soft-capped scores, and random bytes, take registers that the largest tile does not have.
Refusal registers_for_features(const Question& q) {
  const Problem& p = q.problem;
  const std::int64_t block_q = q.candidate.tile->algorithm.block_q;
  if (block_q <= Sm90Boxes::group_rows || (p.softcap == 0 && p.dropout == 0)) return {};
  return fmt::format("its tile of {} queries is for problems without {}; use a smaller one", block_q,
                     p.softcap != 0 ? "soft cap" : "dropout");
}

Refusal ragged_maps_fit(const Question& q) {
  const Problem& p = q.problem;
  constexpr std::int64_t most = Sm90Boxes::most_map_rows;
  if (!is_ragged(p) || (p.sq <= most && p.sk <= most)) return {};
  const bool queries = p.sq > most;
  return fmt::format("{}={} is too large for its tensor maps; with lengths sequences have at most {} rows",
                     queries ? "sq" : "sk", queries ? p.sq : p.sk, most);
}

Refusal shared_memory_fits(const Question& q) {
  const Sm90BackwardLayout layout = layout_of(signature(q.problem), q.candidate.tile->algorithm);
  return fits_in_shared_memory(q, layout.total() + layout.static_bytes());
}

std::span<const Rule> own_rules() {
  static constexpr Rule list[] = {
      {"ragged_maps_fit", ragged_maps_fit, true}, {"supports_features", supports_features},
      {"smallest_tile", smallest_tile},           {"registers_for_features", registers_for_features},
      {"head_dims_aligned", head_dims_aligned},   {"launch_fits", launch_fits},
      {"shared_memory_fits", shared_memory_fits},
  };
  return list;
}

/// If tiles of 128 queries fit, those of 64 take longer by this factor, which their padding alone does not
/// explain (docs/notebook/hopper-backward.md).
constexpr double of_short_tiles = 1.25;

Seconds seconds(const Plan& plan, const Stage& stage) {
  const Problem& p = plan.problem;
  const std::int64_t block_q = stage.key.algorithm.block_q;
  const bool is_short = block_q <= Sm90Boxes::group_rows && p.d <= 64 && p.dv <= 64;
  const Seconds computing = (is_short ? of_short_tiles : 1) *
                            seconds_to_compute(plan, block_q, false, flops_per_second(plan, p.dtype));
  return std::max(computing, seconds_to_read(plan, false)) / busy_workers(plan, stage, 1);
}

Result<TensorBoxes> boxes(const Plan& plan, const Stage& stage, const Arguments& a) {
  constexpr BoxesOf backward{"sm90_backward", "portable_backward"};
  const Problem& p = plan.problem;
  // Without queries nothing is read through their maps, which then describe tensors that exist.
  const bool has_queries = (p.varlen ? query_tokens(p) : p.sq) > 0;
  const BoxedRows q = rows_of_queries(p, "q", has_queries ? a.q : a.k, p.d, p.dtype),
                  grad_o = rows_of_queries(p, "grad_o", has_queries ? a.grad_o : a.v, p.dv, p.dtype),
                  k = rows_of_keys(p, "k", a.k, p.d, p.dtype), v = rows_of_keys(p, "v", a.v, p.dv, p.dtype);
  for (const BoxedRows* tensor : {&q, &k, &v, &grad_o})
    if (Status status = reachable(p, *tensor, backward); !status) return tl::unexpected(status.error());
  const BoxedRows gradients[] = {rows_of_keys(p, "grad_k", a.grad_k, p.d, p.dtype),
                                 rows_of_keys(p, "grad_v", a.grad_v, p.dv, p.dtype)};
  for (const BoxedRows& tensor : gradients)
    if (Status status = aligned(without_map(tensor), backward); !status)
      return tl::unexpected(status.error());
  const Algorithm& algorithm = stage.key.algorithm;
  return TensorBoxes{{box_of(p, q, algorithm.block_q), box_of(p, k, algorithm.block_k),
                      box_of(p, v, algorithm.block_k), box_of(p, grad_o, algorithm.block_q)},
                     4};
}

constexpr Feature features[] = {Feature::wgmma, Feature::tma};
constexpr AlgorithmField required[] = {&Algorithm::block_q, &Algorithm::block_k, &Algorithm::warps,
                                       &Algorithm::stages};

}  // namespace

Result<Plan> plan_sm90_backward(const Problem& p, const Target& target, const Target::Tile& tile,
                                const PlanOptions& options) {
  Plan plan = start(p, target, options);
  const std::int64_t block_q = tile.algorithm.block_q, block_k = tile.algorithm.block_k;
  const std::int64_t group = p.hq / p.hk;
  const std::int64_t of_part = heads_of_part(plan, product({p.b, p.hk, ceil_divide(p.sk, block_k)}));
  const Sm90BackwardLayout layout = layout_of(signature(p), tile.algorithm);
  GpuBackward backward{.block_q = block_q,
                       .grad_q_columns = layout.d,
                       .order = GradQOrder::fragments,
                       .grad_q_slices = layout.grad_q_slices(block_k),
                       .part_heads = of_part,
                       .side_by_side = heads_together(p, of_part)};
  backward.first_stores = !adds_to_zeros(p, layout, block_k);
  if (backward.first_stores) backward.turns = p.sq > 0 ? query_tiles(p, block_q) : 0;
  if (p.deterministic)
    backward.keys_descend = has_right_edge(p);
  else
    backward.tickets = backward.turns;
  if (of_part < group) backward.grad_k_columns = layout.d, backward.grad_v_columns = layout.dv;
  Stage main = stage_of(p, target, sm90_backward, &tile,
                        product({p.b, p.hk, ceil_divide(group, of_part), ceil_divide(p.sk, block_k)}), 0);
  main.shared_bytes = shared_bytes(main.key);
  return finish_gpu_backward(std::move(plan), std::move(main), backward);
}

const Kernel sm90_backward{.name = "sm90_backward",
                           .features = features,
                           .depends_on = backward_on_hopper,
                           .schedule = gpu_backward_schedule,
                           .required = required,
                           .rules = own_rules,
                           .seconds = seconds,
                           .dynamic_shared_bytes = shared_bytes,
                           .boxes = boxes};

}  // namespace regard
