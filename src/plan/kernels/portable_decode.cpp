// kernels/portable/decode.cu: blocks of 16 packed query rows of a K/V head and a part of the keys.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/portable/decode_layout.h"
#include "kernels/portable/decode_schedule.h"
#include "plan/cost.h"
#include "plan/gpu_rows.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"
#include "plan/sizes.h"

namespace regard {
namespace {

using portable::DecodeLayout;

/// Blocks of 16 rows read K and V again; beyond this the forward kernels, which read them once, are faster.
constexpr std::int64_t most_rows = 4 * DecodeLayout::rows;

DecodeLayout layout_of(const Signature& s, const Algorithm& a) {
  return DecodeLayout(s.dv, static_cast<i64>(bytes_of(s.kv)), a.warps, s.row_max);
}

std::int64_t shared_bytes(const KernelKey& key) {
  return layout_of(key.signature, key.algorithm).total;
}

Refusal few_query_rows(const Question& q) {
  const std::int64_t rows = rows_of_kv_head(q.problem);
  if (rows <= most_rows) return {};
  return fmt::format("{} query rows share a K/V head, above its {}; the forward kernels take any number",
                     rows, most_rows);
}

Refusal supports_features(const Question& q) {
  const Problem& p = q.problem;
  const auto unsupported = [](std::string_view what) {
    return fmt::format("it does not support {}; portable_forward does", what);
  };
  if (p.bias != Bias::none) return unsupported("a bias");
  if (p.dropout > 0) return unsupported("dropout");
  if (p.bits) return unsupported("bit masks");
  if (p.latent) return unsupported("a latent K");
  if (p.batch_invariant)
    return unsupported("batch_invariant, as its sums have another order than those of many rows");
  if (bytes_of(p.dtype) != 2) return unsupported("queries other than bf16 and fp16");
  if (p.kv_layout != KvLayout::linear) return unsupported("vectorized pages");
  if (p.descale == Descale::token || p.descale == Descale::page)
    return unsupported("factors for each token or page");
  return {};
}

/// Registers hold 16 keys of each wave or, if they are 8-bit, 32.
Refusal keys_fit_registers(const Question& q) {
  const Algorithm& a = q.candidate.tile->algorithm;
  const std::int64_t keys = bytes_of(q.problem.kv) == 1 ? 32 : 16;
  if (a.block_k == keys * a.warps) return {};
  return fmt::format("its tile of {} keys is for {} K and V; use the one of {}", a.block_k,
                     keys == 32 ? "16-bit" : "8-bit", keys * a.warps);
}

/// Lanes read whole vectors.
Refusal columns_are_vectors(const Question& q) {
  const Problem& p = q.problem;
  const auto bytes = static_cast<std::int64_t>(bytes_of(p.kv));
  const std::int64_t of_k = 16 / bytes,
                     of_v = layout_of(signature(p), q.candidate.tile->algorithm).vector / bytes;
  if (p.d % of_k == 0 && p.dv % of_v == 0) return {};
  return fmt::format(
      "its threads read {} numbers of K and {} of V at once, which do not divide head dims of {}/{}", of_k,
      of_v, p.d, p.dv);
}

Refusal shared_memory_fits(const Question& q) {
  return fits_in_shared_memory(q, layout_of(signature(q.problem), q.candidate.tile->algorithm).total);
}

std::span<const Rule> own_rules() {
  static constexpr Rule list[] = {
      {"reads_cache", reads_cache},
      {"few_query_rows", few_query_rows, true},
      {"supports_features", supports_features},
      {"keys_fit_registers", keys_fit_registers},
      {"columns_are_vectors", columns_are_vectors},
      {"combine_columns", combine_columns},
      {"launch_fits", launch_fits},
      {"shared_memory_fits", shared_memory_fits},
  };
  return list;
}

std::int64_t row_blocks(const Problem& p) {
  return ceil_divide(rows_of_kv_head(p), DecodeLayout::rows);
}

// Measured on an H200.
/// A block finds what its rows see, loads Q and its first keys, and adds the sums of its waves.
constexpr Seconds of_block = 5e-6;
/// The fraction of a multiprocessor's share of the memory's rate that one block alone reaches.
constexpr double drawn_by_block = 0.6;

std::int64_t blocks_at_once(const Plan& plan, const Algorithm& a) {
  return plan.workers * std::max<std::int64_t>(a.occupancy, 1);
}

/// Blocks run in rounds; the last one may leave multiprocessors idle.
Seconds seconds(const Plan& plan, const Stage& stage) {
  const double at_once = static_cast<double>(blocks_at_once(plan, stage.key.algorithm)),
               rate = chip_bytes_per_second(plan), grid = static_cast<double>(stage.grid);
  // Each block of rows reads K and V again.
  const double bytes = seconds_to_read(plan, true) * bytes_per_second(plan) *
                       static_cast<double>(row_blocks(plan.problem)) / grid;
  const auto round_of = [&](double blocks) {
    return of_block + bytes * std::max(blocks / rate, plan.workers / rate / drawn_by_block);
  };
  const double rounds = std::floor(grid / at_once), rest = grid - rounds * at_once;
  return rounds * round_of(at_once) + (rest > 0 ? round_of(rest) : 0);
}

/// As many parts as let all blocks run at once or, if there are more blocks, as fill their rounds best. The
/// bound of lengths hardly counts, as it may be far above them.
std::int64_t parts_for_rounds(const Plan& plan, const Algorithm& a) {
  const Problem& p = plan.problem;
  const std::int64_t blocks = std::max<std::int64_t>(product({p.b, p.hk, row_blocks(p)}), 1),
                     at_once = blocks_at_once(plan, a);
  if (blocks <= at_once) return at_once / blocks;
  constexpr double of_another = 0.05;  // what another part costs
  const auto cost = [&](std::int64_t parts) {
    const double rounds = static_cast<double>(product({blocks, parts})) / static_cast<double>(at_once);
    return std::ceil(rounds) / rounds + of_another * static_cast<double>(parts);
  };
  // A sequence that is longer than the others delays the end less if it has two parts.
  constexpr std::int64_t long_keys = 8192;
  const bool lengths_differ = (p.lengths || p.varlen || p.paged > 0) && p.b > 1 && p.sk > long_keys;
  std::int64_t best = lengths_differ ? 2 : 1;
  for (std::int64_t parts = best + 1; parts <= 4; ++parts)
    if (cost(parts) < cost(best)) best = parts;
  return best;
}

std::int64_t parts_of(const Plan& plan, const Algorithm& a) {
  constexpr std::int64_t least_keys = 256;
  const Problem& p = plan.problem;
  if (p.splits > 0) return p.splits;
  // Waves sum separately, so that a part has as many sums as warps.
  const std::int64_t for_digits = ceil_divide(parts_of_long_rows(p), a.warps);
  return std::max(for_digits, std::min(parts_for_rounds(plan, a), most_parts(p, least_keys)));
}

constexpr Feature features[] = {Feature::matrix, Feature::mma_layout};
constexpr AlgorithmField required[] = {&Algorithm::block_q, &Algorithm::block_k, &Algorithm::warps,
                                       &Algorithm::warps_across, &Algorithm::occupancy};

}  // namespace

Result<Plan> plan_portable_decode(const Problem& problem, const Target& target, const Target::Tile& tile,
                                  const PlanOptions& options) {
  const Problem& p = problem;
  Plan plan = start(p, target, options);
  split_keys(plan, parts_of(plan, tile.algorithm), tile.algorithm.block_k);
  Stage stage =
      stage_of(p, target, portable_decode, &tile, product({p.b, p.hk, row_blocks(p), plan.splits}), 0);
  stage.shared_bytes = shared_bytes(stage.key);
  stage.schedule = Schedule(PortableDecodeSchedule{split_seen_keys_of(plan), p.hq / p.hk});
  plan.stages = {std::move(stage)};
  merge_on_gpu(plan);
  return finish(std::move(plan));
}

const Kernel portable_decode{.name = "portable_decode",
                             .features = features,
                             .depends_on = decode_on_gpu,
                             .schedule = {"PortableDecodeSchedule", sizeof(PortableDecodeSchedule)},
                             .required = required,
                             .rules = own_rules,
                             .seconds = seconds,
                             .dynamic_shared_bytes = shared_bytes};

}  // namespace regard
