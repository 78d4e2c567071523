// The problems that the kernel supports, and which of its tiles is for which shape.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plan/gpu_rows.h"
#include "plan/kernels/sm90_boxes.h"
#include "plan/kernels/sm90_forward.h"
#include "plan/kernels/sm90_unsupported.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"
#include "plan/stage.h"

namespace regard {
namespace {

/// The three warpgroups of a large tile have no registers to spare.
Refusal too_large_for(const Question& q, std::string_view what) {
  const std::int64_t block_q = q.candidate.tile->algorithm.block_q;
  if (block_q <= 128) return {};
  return fmt::format("its tile of {} queries is for problems without {}; use a smaller one", block_q, what);
}

/// Whether another tile could take the problem.
bool could_take(const Question& q, const Target::Tile& other) {
  const Target::Tile& tile = *q.candidate.tile;
  return other.algorithm.kernel == tile.algorithm.kernel && q.problem.d <= other.max_d &&
         q.problem.dv <= other.max_dv &&
         std::find(other.dtypes.begin(), other.dtypes.end(), q.problem.dtype) != other.dtypes.end();
}

Refusal supports_features(const Question& q) {
  constexpr std::string_view instead = "portable_forward";
  const Problem& p = q.problem;
  const std::size_t bytes = bytes_of(p.dtype);
  if (bytes > 2) return unsupported("inputs other than bf16, fp16 and fp8", instead);
  if (bytes == 2 && p.out != p.dtype) return unsupported("output of a type other than Q's", instead);
  if (bytes == 1 && bytes_of(p.out) != 2) return unsupported("8-bit or 32-bit output from fp8", instead);
  const bool by_row = p.bits || p.ranges;  // with these, the next two would spill
  if (by_row && p.dropout > 0 && (p.bias != Bias::none || p.softcap > 0))
    return unsupported("bits or ranges with dropout and a bias or soft cap", instead);
  if (by_row && p.softcap > 0 && (p.d > 128 || p.dv > 128))
    return unsupported("bits or ranges with a soft cap at head dims above 128", instead);
  // With these, row_max would spill.
  if (p.row_max && p.bias != Bias::none) return unsupported("row_max with a bias", instead);
  if (p.row_max && by_row) return unsupported("row_max with bits or ranges", instead);
  if (p.bits && bytes == 1) return unsupported("bit masks with 8-bit types", instead);
  if (p.ranges && bytes == 1) return unsupported("row ranges with 8-bit types", instead);
  if (p.dropout > 0 && bytes == 1) return unsupported("dropout of 8-bit weights", instead);
  if (p.dropout > 0 && p.paged > 0) return unsupported("dropout with pages", instead);
  if (p.dropout > 0 && splits_keys(*q.candidate.recipe))
    return unsupported("dropout with split keys", instead);
  if (p.dropout_mask) return fmt::format("it does not write the dropout mask; {} does", instead);
  return sm90_unsupported(p, instead);
}

Refusal pages_are_boxes(const Question& q) {
  const Problem& p = q.problem;
  constexpr std::string_view instead = "portable_forward";
  if (p.kv != p.dtype) return unsupported("keys and values of a type other than Q's", instead);
  if (p.descale == Descale::token || p.descale == Descale::page)
    return unsupported("factors for each token or page", instead);
  // Small pages go to portable_forward, so all pages do if a row must have the same bits for every page size.
  if (is_cache(p) && bytes_of(p.dtype) == 1 && p.batch_invariant)
    return unsupported("8-bit queries on a cache with batch_invariant", instead);
  if (p.paged == 0) {
    if (is_cache(p) && bytes_of(p.dtype) == 1) return unsupported("dense caches of 8-bit types", instead);
    return {};
  }
  if (p.kv_layout != KvLayout::linear) return unsupported("vectorized pages", instead);
  if (p.left_padding) return unsupported("left padding in pages", instead);
  if (!gathers(p, q.candidate.tile->algorithm.block_k)) return {};
  if (bytes_of(p.dtype) == 1)
    return unsupported("8-bit keys and values in pages that are not a multiple of 16 rows", instead);
  // The warps that copy have no registers for the addresses of more rows.
  constexpr std::int64_t most_keys = 96;
  if (q.candidate.tile->algorithm.block_k > most_keys && !p.batch_invariant)
    return fmt::format(
        "the threads of its tile of {} keys have no registers to copy the rows of small pages; use {}",
        q.candidate.tile->algorithm.block_k, instead);
  return too_large_for(q, "rows that threads copy");
}

Refusal smallest_tile(const Question& q) {
  const Problem& p = q.problem;
  const Target::Tile& tile = *q.candidate.tile;
  for (const Target::Tile& other : q.target.tiles) {
    if (!could_take(q, other) || other.max_d + other.max_dv >= tile.max_d + tile.max_dv) continue;
    return fmt::format("its tile is for head dims up to {}/{}; the one for {}/{} holds more keys or stages",
                       tile.max_d, tile.max_dv, other.max_d, other.max_dv);
  }
  // There are few rows then, and there would be many kernels.
  if (splits_keys(*q.candidate.recipe)) {
    if (Refusal refusal = too_large_for(q, "split keys")) return refusal;
  }
  if (p.bias != Bias::none) return too_large_for(q, "bias");
  if (p.dropout > 0) return too_large_for(q, "dropout");
  if (p.bits) return too_large_for(q, "bit masks");
  if (p.ranges) return too_large_for(q, "row ranges");
  if (p.row_max) return too_large_for(q, "row_max");
  return p.softcap > 0 ? too_large_for(q, "soft cap") : std::nullopt;
}

Refusal clusters_share_keys(const Question& q) {
  if (q.candidate.tile->algorithm.cluster <= 1) return {};
  const Problem& p = q.problem;
  if (bytes_of(p.dtype) == 1)
    return std::string("clusters do not transpose 8-bit V; use a tile without clusters");
  if (p.bits || p.ranges) {
    return std::string(
        "the blocks of a cluster may see different tiles with bits or ranges; use a tile without clusters");
  }
  if (!is_ragged(p) && !splits_keys(*q.candidate.recipe)) return {};
  return std::string(
      "the blocks of its clusters load K and V for each other, so sequences must fill their tensors and keys "
      "stay whole; use a tile without clusters");
}

Refusal rows_for_clusters(const Question& q) {
  if (q.candidate.tile->algorithm.cluster <= 1) return {};
  const Problem& p = q.problem;
  const std::int64_t block_q = q.candidate.tile->algorithm.block_q;
  if (p.sq > block_q && p.sk > 0 && pack_gqa_rows_of_head(p, block_q) == 0) return {};
  return std::string("its clusters need keys and query rows for two blocks; use a tile without clusters");
}

/// A block of work notes two bits for each tile: whether its rows see any of it, and all of it.
Refusal bits_have_tiles(const Question& q) {
  const std::int64_t most = Sm90ForwardLayout::most_seen_tiles * q.candidate.tile->algorithm.block_k;
  if (!q.problem.bits || q.problem.sk <= most) return {};
  return fmt::format("with bits its tile supports sk up to {}; use portable_forward", most);
}

Refusal packs_gqa(const Question& q) {
  const Problem& p = q.problem;
  constexpr std::int64_t few = Sm90ForwardLayout::group_rows;
  const std::int64_t block_q = q.candidate.tile->algorithm.block_q;
  if (p.dropout > 0 && (block_q == few || pack_gqa_work(p, block_q) > 0))
    return unsupported("dropout for few query rows of several heads", "portable_forward");
  // With batch_invariant few rows go through the same keys at a time as many.
  const bool has_few = pack_gqa_work(p, few) == 1 && !p.batch_invariant;
  if (block_q == few) {
    if (has_few) return {};
    return fmt::format(
        "its tile of {} queries is for all rows of several heads of a K/V head, without batch_invariant; "
        "use a larger one",
        few);
  }
  if (pack_gqa_work(p, block_q) == 0) return {};
  const auto& tiles = q.target.tiles;
  const bool has_tile_of_few = std::any_of(tiles.begin(), tiles.end(), [&](const Target::Tile& other) {
    const Candidate instead{q.candidate.recipe, &other};
    const Question of_other{p, q.target, instead, q.options};
    return could_take(q, other) && other.algorithm.block_q == few && is_selected(of_other);
  });
  if (has_few && has_tile_of_few) {
    return fmt::format(
        "its tile of {} queries is for more rows than the heads of a K/V head have; use one of {}", block_q,
        few);
  }
  return too_large_for(q, "few query rows of many heads");
}

}  // namespace

Refusal ragged_maps_fit(const Question& q) {
  const Problem& p = q.problem;
  constexpr std::int64_t most = Sm90ForwardLayout::most_map_rows;
  if (!is_ragged(p) || (p.sq <= most && p.sk <= most)) return {};
  const bool queries = p.sq > most;
  return fmt::format("{}={} is too large for its tensor maps; with lengths sequences have at most {} rows",
                     queries ? "sq" : "sk", queries ? p.sq : p.sk, most);
}

Refusal split_pays(const Question& q) {
  const Problem& p = q.problem;
  if (!may_split(q) || parts_of_long_rows(p) > 1) return {};
  const Target::Tile& tile = *q.candidate.tile;
  // With persistent blocks, a second round that is not full can be evened out, if that is cheaper.
  const std::int64_t enough = 2 * workers(q.target, q.options);
  if (Refusal refusal = blocks_are_few(q, sm90_work(p, tile.algorithm.block_q, 1), enough)) return refusal;
  // The cost decides whether a merge pays off: two parts of two tiles each, or more.
  return keys_are_many(q, 4 * tile.algorithm.block_k);
}

namespace {

Refusal shared_memory_fits(const Question& q) {
  return fits_in_shared_memory(q, sm90_layout(signature(q.problem), q.candidate.tile->algorithm).total() +
                                      Sm90ForwardLayout::static_bytes);
}

}  // namespace

std::span<const Rule> sm90_forward_rules() {
  static constexpr Rule list[] = {
      {"pages_are_boxes", pages_are_boxes, true},
      {"ragged_maps_fit", ragged_maps_fit, true},
      {"split_pays", split_pays, true},
      {"long_sums", long_sums, true},
      {"parts_are_invariant", parts_are_invariant, true},
      {"combine_columns", combine_columns},
      {"supports_features", supports_features},
      {"smallest_tile", smallest_tile},
      {"clusters_share_keys", clusters_share_keys},
      {"rows_for_clusters", rows_for_clusters, true},
      {"bits_have_tiles", bits_have_tiles, true},
      {"packs_gqa", packs_gqa, true},
      {"has_many_rows", has_many_rows, true},
      {"head_dims_aligned", head_dims_aligned},
      {"launch_fits", launch_fits},
      {"shared_memory_fits", shared_memory_fits},
      {"fragments_divide", fragments_divide},
  };
  return list;
}

/// Whether heads share a block, whether threads copy the keys of pages and whether the keys are split is
/// compiled in: splitting may turn out to give a single part.
std::vector<KernelKey> sm90_forward_variants(const Question& q, const KernelKey& of_tile) {
  Problem example = q.problem;
  const Question question{example, q.target, q.candidate, q.options};  // refers to the example as it changes
  const std::int64_t block_q = q.candidate.tile->algorithm.block_q;
  const bool hides_nothing = mask_hides_nothing(q.problem);
  std::set<std::pair<bool, bool>> kinds;
  const auto ask = [&](std::int64_t heads, std::int64_t sq) {
    example.hq = example.hk * heads;
    example.sq = sq;
    if (mask_hides_nothing(example) != hides_nothing) return;  // this needs another kernel
    if (rows_for_clusters(question) || packs_gqa(question)) return;
    for (const std::int64_t page : {std::int64_t{1}, of_tile.algorithm.block_k}) {
      if (q.problem.paged > 0) example.paged = page;
      if (pages_are_boxes(question)) continue;
      kinds.insert(
          {pack_gqa_rows_of_head(example, block_q) > 0, gathers(example, of_tile.algorithm.block_k)});
    }
  };
  constexpr std::int64_t few = Sm90ForwardLayout::group_rows;
  for (const std::int64_t sq : {std::int64_t{1}, std::int64_t{2}, 2 * block_q}) ask(1, sq);
  for (std::int64_t heads = 2; heads <= 2 * few; heads *= 2) {
    ask(heads, 1);
    ask(heads, 2);
    ask(heads, few / heads + 1);  // one row more than the tile for few rows has
  }
  std::vector<KernelKey> keys;
  for (const auto& [packs_heads, gathers_keys] : kinds) {
    KernelKey& key = keys.emplace_back(of_tile);
    key.algorithm.pack_gqa = packs_heads ? 1 : 0;
    key.algorithm.gather = gathers_keys ? 1 : 0;
    if (!splits_keys(*q.candidate.recipe)) continue;
    keys.push_back(key);
    keys.back().algorithm.split = 1;
  }
  return keys;
}

}  // namespace regard
