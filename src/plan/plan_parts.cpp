#include "plan/plan_parts.h"

#include <algorithm>

#include "plan/function_bits.h"
#include "plan/function_ranges.h"
#include "plan/function_words.h"
#include "plan/kernels/kernels.h"

namespace regard {

int workers(const Target& target, const PlanOptions& options) {
  return std::max(target.on_cpu() ? options.threads : target.units, 1);
}

Plan start(const Problem& problem, const Target& target, const PlanOptions& options) {
  Plan plan;
  plan.problem = problem;
  plan.target = &target;
  plan.words = options.words;
  plan.workers = workers(target, options);
  plan.split_keys = problem.sk;
  return plan;
}

std::int64_t rows_of_kv_head(const Problem& p) {
  return product({p.hq / p.hk, p.sq});
}

std::int64_t new_tokens(const Problem& p) {
  return packs_new(p) ? p.tnew : product({p.b, p.snew});
}

bool rotates_queries(const Problem& p) {
  return p.pass == Pass::fwd && p.rope != Rope::none;
}

std::int64_t rotated_q_columns(const Problem& p) {
  return round_up(p.d, 16 / static_cast<std::int64_t>(bytes_of(p.dtype)));
}

double bytes_of_append(const Problem& p) {
  const std::int64_t columns = p.latent ? p.d : p.d + p.dv;
  const auto of_token = static_cast<double>(p.hk * columns * (bytes_of(p.dtype) + bytes_of(p.kv)));
  const auto of_query = static_cast<double>(2 * p.hq * p.d * bytes_of(p.dtype));
  const auto queries = static_cast<double>(rotates_queries(p) ? query_tokens(p) : 0);
  return static_cast<double>(new_tokens(p)) * of_token + queries * of_query;
}

namespace {

/// Keys have to be in the cache before they are read.
void append_first(Plan& plan) {
  const Problem& p = plan.problem;
  if (p.pass != Pass::fwd || !writes_cache(p)) return;
  plan.stages.insert(plan.stages.begin(),
                     plan.target->on_cpu() ? append_on_cpu(p, *plan.target) : append_on_gpu(p, *plan.target));
  // The kernels of forward wait for it, if the GPU has the instruction (kernels/cuda/pdl.h).
  plan.stages[1].overlaps = plan.target->has(Feature::pdl);
  if (!rotates_queries(p)) return;
  const std::int64_t bytes = static_cast<std::int64_t>(bytes_of(p.dtype));
  plan.rotated_q =
      plan.workspace.add("rotated_q", product({query_tokens(p), p.hq, rotated_q_columns(p), bytes}));
}

/// Kernels read the mask as the word `bits`.
void write_bits_first(Plan& plan) {
  if (plan.words == nullptr || !plan.words->mask) return;
  const FunctionSteps& mask = *plan.words->mask;
  const BitsShape shape(plan.problem, mask);
  if (shape.bytes() == 0) return;
  const bool on_cpu = plan.target->on_cpu();
  plan.steps = {plan.words, &mask};
  if (on_cpu) plan.function = plan.workspace.add("function", mask.bytes());
  plan.bits = plan.workspace.add("bits", sum({shape.bytes(), shape.map_bytes()}));
  plan.stages.insert(plan.stages.begin(),
                     on_cpu ? write_bits_on_cpu(plan, shape) : write_bits_on_gpu(plan, shape));
}

/// Kernels read the mask as the word `ranges`.
void write_ranges_first(Plan& plan) {
  if (plan.words == nullptr || !plan.words->ranges) return;
  const FunctionSteps& ranges = *plan.words->ranges;
  const RangesShape shape(plan.problem, ranges);
  if (shape.bytes() == 0) return;
  const bool on_cpu = plan.target->on_cpu();
  plan.steps = {plan.words, &ranges};
  if (on_cpu) plan.function = plan.workspace.add("function", ranges.bytes());
  plan.ranges = plan.workspace.add("ranges", shape.bytes());
  plan.stages.insert(plan.stages.begin(),
                     on_cpu ? write_ranges_on_cpu(plan, shape) : write_ranges_on_gpu(plan, shape));
}

}  // namespace

Result<Plan> finish(Plan plan) {
  append_first(plan);
  write_bits_first(plan);
  write_ranges_first(plan);
  std::int64_t scratch = 0;
  for (const Stage& stage : plan.stages) {
    scratch = std::max(scratch, stage.scratch_bytes);
    if (stage.grid == too_large) return refused(too_many_blocks);
  }
  plan.scratch = plan.workspace.add("scratch", product({scratch, plan.workers}));
  if (Status status = plan.workspace.lay_out(); !status) return tl::unexpected(status.error());
  return plan;
}

bool vector_vnni(DType dtype, const Target& target) {
  return dtype == DType::bf16 && target.has(Feature::bf16_dot);
}

bool tile_unit(DType dtype, const Target& target) {
  return (dtype == DType::bf16 || dtype == DType::fp16) && target.has(Feature::amx);
}

int operand_pieces(DType dtype, const Target& target) {
  return tile_unit(dtype, target) && dtype == DType::fp16 ? 2 : 1;
}

bool vnni(DType dtype, const Target& target) {
  return vector_vnni(dtype, target) || tile_unit(dtype, target);
}

std::int64_t operand_depth(DType dtype, const Target& target, std::int64_t n) {
  if (!vnni(dtype, target)) return n;
  const std::int64_t elements = ceil_divide(n, std::int64_t{2});
  if (target.has(Feature::bf16_matrix)) return round_up(elements, std::int64_t{2});
  return tile_unit(dtype, target) ? round_up(elements, std::int64_t{16}) : elements;
}

namespace {

/// With batch_invariant the keys are cut at multiples of this.
constexpr std::int64_t invariant_split_keys = 4096;

void split_every(Plan& plan, std::int64_t keys) {
  plan.split_keys = keys;
  plan.splits = ceil_divide(std::max<std::int64_t>(plan.problem.sk, 1), keys);
}

}  // namespace

bool cuts_at_multiples(const Problem& p) {
  return p.batch_invariant && p.splits == 0 && !p.dropout_mask;
}

std::int64_t parts_at_multiples(const Problem& p, std::int64_t unit) {
  return std::max<std::int64_t>(ceil_divide(p.sk, round_up(invariant_split_keys, unit)), p.sink ? 2 : 1);
}

void split_at_multiples(Plan& plan, std::int64_t unit) {
  plan.split_keys = round_up(invariant_split_keys, unit);
  plan.splits = parts_at_multiples(plan.problem, unit);
}

void split_keys(Plan& plan, std::int64_t splits, std::int64_t unit) {
  const std::int64_t sk = std::max<std::int64_t>(plan.problem.sk, 1);
  split_every(plan, round_up(ceil_divide(sk, std::max<std::int64_t>(splits, 1)), unit));
}

void split_as_asked(Plan& plan, std::int64_t preferred, std::int64_t unit) {
  const Problem& p = plan.problem;
  if (p.batch_invariant && p.splits == 0) return split_every(plan, invariant_split_keys);
  const std::int64_t most = most_parts(p, least_split_keys);
  split_keys(plan, p.splits > 0 ? p.splits : std::clamp<std::int64_t>(preferred, 1, most), unit);
}

std::int64_t most_parts(const Problem& p, std::int64_t least_keys) {
  return std::clamp<std::int64_t>(p.sk / least_keys, 1, most_splits);
}

std::int64_t parts_for_workers(const Plan& plan, std::int64_t blocks) {
  return ceil_divide(2 * plan.workers, std::max<std::int64_t>(blocks, 1));
}

SplitKeys split_keys_of(const Plan& plan) {
  return {plan.splits, plan.split_keys};
}

SplitKeys split_seen_keys_of(const Plan& plan) {
  return {plan.splits, cuts_at_multiples(plan.problem) ? plan.split_keys : 0};
}

void merge_parts(Plan& plan, Stage merge) {
  const Problem& p = plan.problem;
  plan.stages.push_back(std::move(merge));
  const std::int64_t partial_rows = product({plan.splits, p.hq, query_tokens(p)});
  const int o = plan.workspace.add("partial_o", product({partial_rows, p.dv, 4}));
  const int lse = plan.workspace.add("partial_lse", product({partial_rows, 4}));
  const int row_max =
      p.row_max ? plan.workspace.add("partial_row_max", product({partial_rows, 4})) : WorkspaceLayout::none;
  for (Stage& stage : plan.stages) {
    stage.schedule.point(&SplitKeys::partial_o, o);
    stage.schedule.point(&SplitKeys::partial_lse, lse);
    stage.schedule.point(&SplitKeys::partial_row_max, row_max);
  }
}

}  // namespace regard
