#include "plan/function_ranges.h"

#include "plan/sizes.h"
#include "plan/stage.h"

namespace regard {
namespace {

using function::Variable;

std::int64_t bytes_of(std::int64_t rows) {
  return product({rows, 2, sizeof(i32)});
}

}  // namespace

RangesShape::RangesShape(const Problem& p, const FunctionSteps& ranges)
    : rows(p.varlen ? query_tokens(p) : p.sq) {
  if (!p.varlen && (has_own_lengths(p) || reads(ranges, {Variable::b, Variable::tq}))) batches = p.b;
}

std::int64_t RangesShape::bytes() const {
  return product({batches, bytes_of(rows)});
}

void set_written_ranges(const Plan& plan, void* workspace, Arguments& a) {
  const Problem& p = plan.problem;
  const std::int64_t bytes = plan.workspace.parts[static_cast<std::size_t>(plan.ranges)].bytes;
  a.ranges = static_cast<const i32*>(plan.workspace.at(plan.ranges, workspace));
  a.ranges_batch = p.varlen || bytes == bytes_of(p.sq) ? 0 : 2 * p.sq;
}

}  // namespace regard
