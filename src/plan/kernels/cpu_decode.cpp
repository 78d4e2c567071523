// kernels/cpu/decode.cpp: `pack_gqa` query rows of one K/V head per block (over all heads that share it),
// against one part of the keys, so that K and V are read once for them.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/cpu/decode_layout.h"
#include "kernels/cpu/decode_schedule.h"
#include "plan/cost.h"
#include "plan/kernels/cpu_tile_sizes.h"
#include "plan/kernels/kernels.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"

namespace regard {
namespace {

/// The heads of one part of the keys run one after the other; in [b, s, h, d] tensors they share memory
/// pages, of which the processor's TLB holds about 2048 rows. A single head shares none, and each part has
/// its own sums to start, finish and merge.
std::int64_t most_part_keys(const Problem& p) {
  return p.hk == 1 ? 8192 : 2048;
}

/// The maximum number of rows: two blocks of the widest tile still take less time than a tile of the forward
/// kernel, and K and V of the second block are in the cache: bench/cpu/recipes.py.
std::int64_t most_rows(const Question& q) {
  const std::int64_t pack_gqa = q.candidate.tile->algorithm.pack_gqa;
  const bool widest = std::ranges::none_of(q.target.tiles, [pack_gqa](const Target::Tile& other) {
    return other.algorithm.kernel == cpu_decode.name && other.algorithm.pack_gqa > pack_gqa;
  });
  return widest ? 2 * pack_gqa : pack_gqa;
}

Refusal few_query_rows(const Question& q) {
  const std::int64_t rows = rows_of_kv_head(q.problem), most = most_rows(q);
  if (rows <= most) return {};
  return fmt::format("{} query rows share a K/V head, above its {}; the forward kernel takes any number",
                     rows, most);
}

Refusal decode_without_dropout(const Question& q) {
  if (q.problem.dropout == 0) return {};
  return std::string("it does not support dropout; the forward kernel does");
}

Refusal packed_decode_is_invariant(const Question& q) {
  if (!q.problem.batch_invariant || !q.problem.varlen) return {};
  return std::string(
      "with batch_invariant the longest of packed sequences must not decide how keys are split; forward does "
      "not split them");
}

std::span<const Rule> own_rules() {
  static constexpr Rule list[] = {{"decode_tile_sizes", decode_tile_sizes},
                                  {"few_query_rows", few_query_rows, true},
                                  {"decode_without_dropout", decode_without_dropout},
                                  {"packed_decode_is_invariant", packed_decode_is_invariant}};
  return list;
}

/// The type of the rows of K and V that are multiplied (kernels/cpu/decode_rows.h).
DType row_type(const Signature& s) {
  return s.descale == Descale::columns ? s.dtype : s.kv;
}

/// The bytes of a number of K and V in vectorized pages, or of K in two tensors, which are gathered first.
std::int64_t scattered_bytes(const Signature& s) {
  const bool vectorized = s.paged && s.kv_layout == KvLayout::vectorized;
  return vectorized || s.k_rope ? static_cast<std::int64_t>(bytes_of(row_type(s))) : 0;
}

DecodeLayout layout_of(const KernelKey& key, const Target& target) {
  const Signature& s = key.signature;
  return DecodeLayout(
      {.vnni = vector_vnni(s.dtype, target),
       .d = s.d,
       .dv = s.dv,
       .pack_gqa = key.algorithm.pack_gqa,
       .block_k = key.algorithm.block_k,
       .scattered_bytes = scattered_bytes(s),
       .tiles = decode_uses_tiles(
           {.unit = tile_unit(s.dtype, target) && s.dtype == DType::bf16 && row_type(s) == DType::bf16,
            .pack_gqa = key.algorithm.pack_gqa,
            .d = s.d,
            .dv = s.dv}),
       .latent = s.latent});
}

/// The K/V heads of a block: as many as leave work for all threads, and whose sums stay in the second cache.
std::int64_t heads_of_block(const Plan& plan, std::int64_t row_blocks, std::int64_t bytes_of_head) {
  constexpr std::int64_t most_bytes = 128 * 1024;
  const Problem& p = plan.problem;
  std::int64_t heads = std::min<std::int64_t>(p.hk, CpuDecodeSchedule::most_heads);
  const auto fits = [&] {
    const std::int64_t blocks = product({row_blocks, p.b, p.hk / heads, plan.splits});
    return p.hk % heads == 0 && heads * bytes_of_head <= most_bytes && blocks >= 2 * plan.workers;
  };
  while (heads > 1 && !fits()) --heads;
  return heads;
}

std::vector<ScheduleNumber> schedule_numbers(const Schedule& bytes) {
  return {{"heads", bytes.as<CpuDecodeSchedule>().heads}};
}

/// It computes while K and V are being loaded. With few rows the products wait for loads, and use vectors
/// even if there is a matrix unit (bench/cpu/recipes.py).
Seconds seconds(const Plan& plan, const Stage& stage) {
  const double rate =
      0.6 * std::min(flops_per_second(plan, plan.problem.dtype), 2 * flops_per_second(plan, DType::fp32));
  const Seconds computing = seconds_to_compute(plan, stage.key.algorithm.pack_gqa, true, rate);
  return std::max(computing, seconds_to_read(plan, true)) / busy_workers(plan, stage, 1);
}

constexpr AlgorithmField required[] = {&Algorithm::block_k, &Algorithm::pack_gqa};

}  // namespace

Result<Plan> plan_cpu_decode(const Problem& problem, const Target& target, const Target::Tile& tile,
                             const PlanOptions& options) {
  const Problem& p = problem;
  Plan plan = start(p, target, options);
  const std::int64_t block_k = tile.algorithm.block_k;
  const std::int64_t for_workers = parts_for_workers(plan, product({p.b, p.hk}));
  split_as_asked(plan, std::max(for_workers, ceil_divide(p.sk, most_part_keys(p))), block_k);
  const std::int64_t row_blocks = ceil_divide(rows_of_kv_head(p), tile.algorithm.pack_gqa);
  const KernelKey key = key_of(p, target, cpu_decode, &tile);
  const std::int64_t bytes_of_head = layout_of(key, target).total();
  CpuDecodeSchedule schedule;
  static_cast<SplitKeys&>(schedule) = split_keys_of(plan);
  schedule.heads = heads_of_block(plan, row_blocks, bytes_of_head);
  const std::int64_t grid = product({row_blocks, p.b, p.hk / schedule.heads, plan.splits});
  plan.stages = {stage_of(cpu_decode, key, grid, schedule.heads * bytes_of_head)};
  plan.stages.front().schedule = Schedule(schedule);
  merge_on_cpu(plan);
  return finish(std::move(plan));
}

const Kernel cpu_decode{.name = "cpu_decode",
                        .depends_on = forward_on_cpu,
                        .schedule = {"CpuDecodeSchedule", sizeof(CpuDecodeSchedule), schedule_numbers},
                        .required = required,
                        .rules = own_rules,
                        .seconds = seconds};

}  // namespace regard
