// GPU pipelines: what a target has, and which family and shape each one serves.
#include <fmt/format.h>

#include <algorithm>

#include "plan/gpu_plans.h"
#include "plan/pipelines.h"
#include "plan/rules.h"
#include "plan/stage.h"

namespace regard {
namespace {

bool is(const Question& q, std::string_view pipeline) {
  return q.candidate.pipeline() == pipeline;
}

bool is_hopper_forward(const Question& q) {
  return is(q, "wgmma_tma") && q.candidate.recipe->kernel == "forward";
}

bool is_hopper_cluster(const Question& q) {
  return is_hopper_forward(q) && value_of(*q.candidate.tile, "cluster") > 1;
}

/// The three warpgroups of a large tile have no registers to spare.
Refusal too_large_for(const Question& q, std::string_view what) {
  const std::int64_t block_q = value_of(*q.candidate.tile, "block_q");
  if (block_q <= 128) return {};
  return fmt::format("its tile of {} queries is for problems without {}; use a smaller one", block_q, what);
}

/// Whether another tile of the same pipeline could take the problem.
bool could_take(const Question& q, const Target::Tile& other) {
  const Target::Tile& tile = *q.candidate.tile;
  return other.kernel == tile.kernel && other.pipeline == tile.pipeline && q.problem.d <= other.max_d &&
         q.problem.dv <= other.max_dv &&
         std::find(other.dtypes.begin(), other.dtypes.end(), q.problem.dtype) != other.dtypes.end();
}

}  // namespace

Refusal pipeline_on_target(const Question& q) {
  if (q.candidate.pipeline().empty()) return {};
  const auto& known = q.target.pipelines;
  if (std::find(known.begin(), known.end(), q.candidate.pipeline()) != known.end()) return {};
  return fmt::format("{} has no pipeline {}; it has {}", q.target.name, q.candidate.pipeline(),
                     fmt::join(known, ", "));
}

Refusal pipeline_has_features(const Question& q) {
  const Pipeline* pipeline = find_pipeline(q.candidate.pipeline());
  if (pipeline == nullptr) return {};
  for (std::string_view feature : pipeline->features) {
    if (!q.target.has(feature)) {
      return fmt::format("pipeline {} needs {}, which {} does not have; use mma", pipeline->name,
                         feature, q.target.name);
    }
  }
  return {};
}

Refusal hopper_forward(const Question& q) {
  if (!is_hopper_forward(q)) return {};
  const Problem& p = q.problem;
  const auto bytes = static_cast<std::int64_t>(bytes_of(p.dtype));
  const std::string large_cap = fmt::format("soft cap above {}", Sm90ForwardLayout::largest_soft_cap);
  const std::pair<std::string_view, bool> missing[] = {
      {"inputs but bf16, fp16 and fp8", bytes > 2},
      {"output of another type", bytes == 2 && p.out != p.dtype},
      {"output of 8 or 32 bits from fp8", bytes == 1 && bytes_of(p.out) != 2},
      {"rows that are no multiple of 16 bytes", p.d * bytes % 16 != 0 || p.dv * bytes % 16 != 0},
      {"lengths where batches lie inside rows", p.lengths && !p.varlen && p.layout == Layout::sbhd},
      {"bias", p.bias != Bias::none},
      {"bit masks", p.bits},
      {"row ranges", p.ranges},
      {"dropout", p.dropout > 0},
      {"scale of 0 or less", !(scale_of(p) > 0)},
      {large_cap, p.softcap > Sm90ForwardLayout::largest_soft_cap},
  };
  for (const auto& [what, asked] : missing) {
    if (asked) return fmt::format("the Hopper kernel has no {}; the portable one (mma_async) has", what);
  }
  return {};
}

Refusal hopper_tile(const Question& q) {
  if (!is_hopper_forward(q)) return {};
  const Problem& p = q.problem;
  const Target::Tile& tile = *q.candidate.tile;
  for (const Target::Tile& other : q.target.tiles) {
    if (!could_take(q, other) || other.max_d + other.max_dv >= tile.max_d + tile.max_dv) continue;
    return fmt::format("its tile is for head dims up to {}/{}; the one for {}/{} holds more keys or stages",
                       tile.max_d, tile.max_dv, other.max_d, other.max_dv);
  }
  // Rows are few then, and the kernels would be many.
  if (splits_keys(*q.candidate.recipe)) {
    if (Refusal refusal = too_large_for(q, "split keys")) return refusal;
  }
  return p.softcap > 0 ? too_large_for(q, "soft cap") : std::nullopt;
}

Refusal hopper_cluster(const Question& q) {
  if (!is_hopper_cluster(q)) return {};
  const Problem& p = q.problem;
  if (bytes_of(p.dtype) == 1)
    return std::string("clusters do not transpose 8-bit V; use a tile without clusters");
  if (!p.varlen && !p.lengths && !splits_keys(*q.candidate.recipe)) return {};
  return std::string(
      "the blocks of its clusters load K and V for each other, so sequences must fill their tensors and keys "
      "stay whole; use a tile without clusters");
}

Refusal hopper_cluster_shape(const Question& q) {
  if (!is_hopper_cluster(q)) return {};
  const Problem& p = q.problem;
  const std::int64_t block_q = value_of(*q.candidate.tile, "block_q");
  if (p.sq > block_q && p.sk > 0 && rows_of_packed_heads(p, block_q) == 0) return {};
  return std::string("its clusters want keys, and query rows for two blocks; use a tile without clusters");
}

Refusal hopper_packing(const Question& q) {
  if (!is_hopper_forward(q)) return {};
  const Problem& p = q.problem;
  constexpr std::int64_t few = Sm90ForwardLayout::group_rows;
  const std::int64_t block_q = value_of(*q.candidate.tile, "block_q");
  const bool has_few = packed_work(p, few) == 1;
  if (block_q == few) {
    if (has_few) return {};
    return fmt::format(
        "its tile of {} queries is for all rows of several heads of a K/V head, of sequences that are not "
        "packed and without batch_invariant; use a larger one",
        few);
  }
  if (packed_work(p, block_q) == 0) return {};
  const auto& tiles = q.target.tiles;
  const bool has_tile_of_few = std::any_of(tiles.begin(), tiles.end(), [&](const Target::Tile& other) {
    const Candidate instead{q.candidate.recipe, &other};
    const Question of_other{p, q.target, instead, q.options};
    return could_take(q, other) && value_of(other, "block_q") == few && !asked_for(of_other) &&
           !not_disabled(of_other);
  });
  if (has_few && has_tile_of_few) {
    return fmt::format(
        "its tile of {} queries is for more rows than the heads of a K/V head have; use one of {}", block_q,
        few);
  }
  return too_large_for(q, "few query rows of many heads");
}

}  // namespace regard
