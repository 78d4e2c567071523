// What each family needs of a problem.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "kernels/sm90/forward_layout.h"
#include "plan/cpu_plans.h"
#include "plan/gpu_plans.h"
#include "plan/plan_parts.h"
#include "plan/rules.h"
#include "plan/stage.h"

namespace regard {
namespace {
// Of int32, less what a tile may reach past the last row.
constexpr std::int64_t largest_position = INT32_MAX - 0xffff;
}  // namespace

Refusal positions_fit(const Question& q) {
  const Problem& p = q.problem;
  const bool ragged_maps = q.candidate.pipeline() == "wgmma_tma" && (p.varlen || p.lengths);
  const std::int64_t most = ragged_maps ? Sm90TensorMap::most_rows : largest_position;
  if (p.sq <= most && p.sk <= most) return {};
  const bool queries = p.sq > most;
  return fmt::format("its positions have 32 bits and {}={} is too large; sequences have at most {} rows",
                     queries ? "sq" : "sk", queries ? p.sq : p.sk, most);
}

namespace {

/// On a CPU two blocks of the widest tile still take less time than a tile of the forward kernel, and K and V
/// of the second one lie in the cache: bench/cpu/recipes.py.
std::int64_t most_decode_rows(const Question& q) {
  if (q.target.kind != TargetKind::cpu) return value_of(*q.candidate.tile, "block_q");
  const std::int64_t group = value_of(*q.candidate.tile, "group");
  const bool widest =
      std::none_of(q.target.tiles.begin(), q.target.tiles.end(), [group](const Target::Tile& other) {
        return other.kernel == "decode" && value_of(other, "group") > group;
      });
  return widest ? 2 * group : group;
}

}  // namespace

Refusal few_query_rows(const Question& q) {
  if (q.candidate.recipe->kernel != "decode" || q.candidate.tile == nullptr) return {};
  const std::int64_t rows = group_rows(q.problem), most = most_decode_rows(q);
  if (rows <= most) return {};
  return fmt::format("{} query rows share a K/V head, above its {}; the forward kernel takes any number",
                     rows, most);
}

Refusal decode_without_dropout(const Question& q) {
  if (q.candidate.recipe->kernel != "decode" || q.problem.dropout == 0) return {};
  return std::string("it has no dropout; the forward kernel does");
}

namespace {

std::int64_t blocks_of_rows(const Question& q, std::int64_t block_q) {
  const Problem& p = q.problem;
  if (q.candidate.pipeline() == "wgmma_tma") return sm90_work(p, block_q, 1);
  if (q.target.kind == TargetKind::cuda) return portable_work(p, block_q);
  if (q.target.kind == TargetKind::cpu) return cpu_row_blocks(p, block_q);
  return product({p.b, p.hq, ceil_divide(p.sq, block_q)});
}

}  // namespace

Refusal splits_allowed(const Question& q) {
  const Problem& p = q.problem;
  const Recipe& recipe = *q.candidate.recipe;
  if (p.pass != Pass::fwd) return {};
  if (!splits_keys(recipe)) {
    if (p.splits <= 1) return {};
    return fmt::format("it does not split the keys and splits={} was asked for; use splits=auto", p.splits);
  }
  if (p.paged > 0) return {};  // in one part as well
  if (p.splits == 1) return std::string("it splits the keys and splits=1 was asked for; use splits=auto");
  if (p.dropout_mask) return std::string("it does not write the dropout mask; the forward kernel does");
  if (recipe.kernel != "forward" || q.candidate.tile == nullptr || p.splits > 1) return {};
  if (q.target.kind == TargetKind::cuda && parts_of_long_rows(p) > 1) return {};
  const std::int64_t block_q = std::max<std::int64_t>(value_of(*q.candidate.tile, "block_q"), 1);
  const bool hopper = q.candidate.pipeline() == "wgmma_tma";
  const std::int64_t blocks = blocks_of_rows(q, block_q);
  const int at_once = workers(q.target, q.options);
  // Where Hopper's blocks stay, a second round that is not full can be evened out, if its cost says so.
  if (blocks >= (hopper ? 2 : 1) * at_once) {
    return fmt::format("{} blocks keep {} workers busy without splitting the keys; splits=N forces it",
                       blocks, at_once);
  }
  // Hopper's cost says what a merge is worth: two parts of two tiles each, or more.
  const std::int64_t enough = hopper ? 4 * value_of(*q.candidate.tile, "block_k") : 2 * least_split_keys;
  if (p.sk >= enough) return {};
  return fmt::format("{} keys are too few to split; {} are enough, and splits=N forces it", p.sk, enough);
}

Refusal long_sums(const Question& q) {
  const Problem& p = q.problem;
  if (q.target.kind != TargetKind::cuda || p.pass != Pass::fwd || splits_keys(*q.candidate.recipe)) return {};
  const std::int64_t parts = parts_of_long_rows(p);
  if (parts == 1) return {};
  const std::vector<Candidate> all = candidates(p, q.target);
  const bool can_split = std::any_of(all.begin(), all.end(), [&](const Candidate& other) {
    const Question instead{p, q.target, other, q.options};
    return splits_keys(*other.recipe) && other.pipeline() == q.candidate.pipeline() &&
           std::ranges::all_of(rules(), [&](const Rule& rule) { return !rule.check(instead); });
  });
  if (!can_split) return {};
  return fmt::format(
      "its sums over up to {} keys would lose digits and can be made in {} parts; splits=1 forces it",
      most_keys_of_row(p), parts);
}

Refusal split_is_invariant(const Question& q) {
  if (!q.problem.batch_invariant || q.candidate.recipe->family != Family::split_kv) return {};
  if (q.candidate.recipe->kernel != "decode") {
    return std::string(
        "with batch_invariant the batch must not decide whether keys are split; forward is not split");
  }
  if (!q.problem.varlen) return {};
  return std::string(
      "with batch_invariant the longest of the packed sequences must not decide; forward is not split");
}

Refusal paged_cache(const Question& q) {
  const Problem& p = q.problem;
  const Family family = q.candidate.recipe->family;
  if (family != Family::paged && family != Family::batch_prefill) return {};
  if (p.paged <= 0) return std::string("it reads a paged cache; give the page size, such as paged=16");
  if (family == Family::paged && (has_elementwise_bias(p.bias) || p.dropout > 0)) {
    return std::string(
        "a paged cache goes with neither an elementwise bias nor dropout; gather the keys for those");
  }
  return {};
}

Refusal batch_prefill_inputs(const Question& q) {
  const Problem& p = q.problem;
  if (q.candidate.recipe->family != Family::batch_prefill) return {};
  if (!p.varlen) return std::string("batch prefill takes packed queries; add varlen");
  if (p.paged <= 0 || (p.paged & (p.paged - 1)) != 0) {
    return fmt::format("a page size of {} is not a power of two; use for example paged=16", p.paged);
  }
  const auto& sizes = q.target.page_sizes;
  if (!sizes.empty() && std::find(sizes.begin(), sizes.end(), p.paged) == sizes.end()) {
    std::string known;
    for (std::int64_t size : sizes) known += fmt::format("{}{}", known.empty() ? "" : ", ", size);
    return fmt::format("{} has no kernel for pages of {}; it has them for {}", q.target.name, p.paged, known);
  }
  return {};
}

Refusal append_is_dense(const Question& q) {
  const Recipe& recipe = *q.candidate.recipe;
  if (recipe.family != Family::append_kv && !recipe.appends) return {};
  if (!q.problem.varlen) return {};
  return std::string("append takes [b, snew, heads, dim]; leave varlen away");
}

Refusal append_has_a_tile(const Question& q) {
  if (!q.candidate.recipe->appends || append_tile(q.problem, q.target) != nullptr) return {};
  return fmt::format(
      "{} has no append_kv tile for {} with head dims {}/{}, which writes the new tokens first",
      q.target.name, word(q.problem.dtype), q.problem.d, q.problem.dv);
}

Refusal combine_columns(const Question& q) {
  if (!splits_keys(*q.candidate.recipe) || q.target.kind == TargetKind::cpu) return {};
  for (const Target::Tile& tile : q.target.tiles) {
    if (tile.kernel != "combine" || tile.max_dv < q.problem.dv) continue;
    if (std::find(tile.dtypes.begin(), tile.dtypes.end(), q.problem.dtype) == tile.dtypes.end()) continue;
    const std::int64_t columns = value_of(tile, "block_dv");
    if (columns == 32 && tile.max_dv % columns == 0) return {};
    return fmt::format("the combine stage works on 32 columns that divide dv, its tile says {} of {}",
                       columns, tile.max_dv);
  }
  return fmt::format("{} has no combine tile for {} and dv={}; split keys need both stages", q.target.name,
                     word(q.problem.dtype), q.problem.dv);
}

}  // namespace regard
