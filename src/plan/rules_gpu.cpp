// Rules for GPU kernels: what fits the machine and its matrix instructions.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/portable/decode_layout.h"
#include "plan/gpu_rows.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"
#include "plan/rules.h"
#include "plan/stage.h"

namespace regard {

Refusal head_dims_aligned(const Question& q) {
  const Target::Tile& tile = *q.candidate.tile;
  if (tile.max_d % 8 == 0 && tile.max_dv % 8 == 0) return {};
  return fmt::format(
      "its head dims {}/{} are not multiples of 8, the width of one load; pad them in the table", tile.max_d,
      tile.max_dv);
}

Refusal launch_fits(const Question& q) {
  const Target::Tile& tile = *q.candidate.tile;
  const std::int64_t threads = tile.algorithm.warps * q.target.wave;
  if (threads > q.target.max_threads_per_block) {
    return fmt::format("{} threads per block are above the {} of {}; use fewer warps", threads,
                       q.target.max_threads_per_block, q.target.name);
  }
  return {};
}

Refusal fits_in_shared_memory(const Question& q, std::int64_t bytes) {
  // Waves of AMD GPUs vote through a variable of their own, after which the tiles are aligned again.
  constexpr std::int64_t votes = 256;
  if (q.target.kind == TargetKind::hip) bytes += votes;
  if (bytes <= q.target.shared_memory) return {};
  return fmt::format("its tile needs {} bytes of shared memory, {} has {} per block; use a smaller tile",
                     bytes, q.target.name, q.target.shared_memory);
}

Refusal fragments_divide(const Question& q) {
  const Target::Tile& tile = *q.candidate.tile;
  const std::int64_t queries = tile.algorithm.block_q, keys = tile.algorithm.block_k;
  const std::int64_t asked = tile.algorithm.block_d, step = asked > 0 ? asked : tile.max_d;
  if (step > tile.max_d || tile.max_d % step != 0)
    return fmt::format("steps of block_d={} do not divide the head dim {}", step, tile.max_d);
  const DType dtype = q.problem.dtype;
  const auto divides = [&](const Target::Fragment& f) {
    return std::ranges::find(f.dtypes, dtype) != f.dtypes.end() && f.m > 0 && f.n > 0 && f.k > 0 &&
           queries % f.m == 0 && keys % f.n == 0 && step % f.k == 0;
  };
  if (q.target.fragments.empty() || std::ranges::any_of(q.target.fragments, divides)) return {};
  return fmt::format("no {} matrix instruction of {} divides a tile of {} queries, {} keys and steps of {}",
                     word(dtype), q.target.name, queries, keys, step);
}

Refusal combine_columns(const Question& q) {
  if (!splits_keys(*q.candidate.recipe)) return {};
  const std::string_view combine = q.candidate.recipe->stages.back()->name;
  for (const Target::Tile& tile : q.target.tiles) {
    if (tile.algorithm.kernel != combine || tile.max_dv < q.problem.dv) continue;
    if (std::ranges::find(tile.dtypes, q.problem.dtype) == tile.dtypes.end()) continue;
    const std::int64_t columns = tile.algorithm.block_dv;
    if (columns == 32 && tile.max_dv % columns == 0) return {};
    return fmt::format("the combine stage works on 32 columns that divide dv, its tile says {} of {}",
                       columns, tile.max_dv);
  }
  return fmt::format("{} has no combine tile for {} and dv={}; split keys need both stages", q.target.name,
                     word(q.problem.dtype), q.problem.dv);
}

Refusal has_many_rows(const Question& q) {
  const Problem& p = q.problem;
  constexpr std::int64_t few = portable::DecodeLayout::rows;
  if (rows_of_kv_head(p) > few) return {};
  const bool decodes = std::ranges::any_of(candidates(p.pass, q.target), [&](const Candidate& other) {
    return other.recipe->main == &portable_decode && !first_refusal({p, q.target, other, q.options});
  });
  if (!decodes) return {};
  return fmt::format("portable_decode is faster for up to {} query rows that share a K/V head", few);
}

Refusal long_sums(const Question& q) {
  const Problem& p = q.problem;
  if (splits_keys(*q.candidate.recipe)) return {};
  const std::int64_t parts = parts_of_long_rows(p);
  if (parts == 1) return {};
  const bool can_split = std::ranges::any_of(candidates(p.pass, q.target), [&](const Candidate& other) {
    return splits_keys(*other.recipe) && other.recipe->main == q.candidate.recipe->main &&
           !first_refusal({p, q.target, other, q.options});
  });
  if (!can_split) return {};
  return fmt::format(
      "its sums over up to {} keys would lose digits and can be made in {} parts; splits=1 forces it",
      most_keys_of_row(p), parts);
}

}  // namespace regard
