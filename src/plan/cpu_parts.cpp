#include "plan/cpu_parts.h"

#include <algorithm>

#include "kernels/cpu/combine_layout.h"

namespace regard {

Plan start(const Problem& problem, const Target& target, Family family, const PlanOptions& options) {
  Plan plan;
  plan.problem = problem;
  plan.target = &target;
  plan.family = family;
  plan.threads = std::max(options.threads, 1);
  plan.split_keys = problem.sk;
  return plan;
}

Result<Plan> finish(Plan plan) {
  std::int64_t scratch = 0;
  for (const Stage& stage : plan.stages) {
    scratch = std::max(scratch, stage.scratch_bytes);
    if (stage.grid == too_large) return refused(too_many_blocks);
  }
  need(plan.workspace, Part::scratch, product({scratch, plan.threads}));
  if (Status status = lay_out(plan.workspace); !status) return tl::unexpected(status.error());
  return plan;
}

bool pairs(const Problem& problem, const Target& target) {
  return problem.dtype == DType::bf16 && (target.has("bf16_dot") || target.has("amx"));
}

std::int64_t operand_depth(const Problem& problem, const Target& target, std::int64_t n) {
  if (!pairs(problem, target)) return n;
  const std::int64_t elements = ceil_divide(n, std::int64_t{2});
  return target.has("amx") ? round_up(elements, std::int64_t{16}) : elements;
}

void split_every(Plan& plan, std::int64_t keys) {
  plan.split_keys = keys;
  plan.splits = ceil_divide(std::max<std::int64_t>(plan.problem.sk, 1), keys);
}

void split_keys(Plan& plan, std::int64_t splits, std::int64_t unit) {
  const std::int64_t sk = std::max<std::int64_t>(plan.problem.sk, 1);
  split_every(plan, round_up(ceil_divide(sk, std::max<std::int64_t>(splits, 1)), unit));
}

void need_partials(Plan& plan) {
  const Problem& p = plan.problem;
  const std::int64_t rows = product({plan.splits, p.hq, query_tokens(p)});
  need(plan.workspace, Part::partial_o, product({rows, p.dv, 4}));
  need(plan.workspace, Part::partial_lse, product({rows, 4}));
}

Stage combine_stage(const Plan& plan) {
  const Problem& p = plan.problem;
  const std::int64_t grid = product({p.b, p.hq, ceil_divide(p.sq, std::int64_t{combine_rows})});
  return stage_of(p, *plan.target, "combine", nullptr, grid, 0);
}

}  // namespace regard
