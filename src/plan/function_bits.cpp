#include "plan/function_bits.h"

#include "kernels/cpu/generic_layout.h"
#include "kernels/tile_map.h"
#include "plan/sizes.h"

namespace regard {

using function::Variable;

BitsShape::BitsShape(const Problem& p, const FunctionSteps& mask) : rows(p.sq), keys(p.sk) {
  if (has_own_lengths(p) || reads(mask, {Variable::b, Variable::tq, Variable::tk})) batches = p.b;
  if (reads(mask, {Variable::h, Variable::hk})) heads = p.hq;
  words = product({ceil_divide(p.sk, GenericLayout::tile_keys), GenericLayout::tile_keys / 32});
}

std::int64_t BitsShape::bytes() const {
  return product({batches, heads, rows, words, 4});
}

std::int64_t BitsShape::map_bytes() const {
  return product({batches, heads, TileMap::size(rows, keys), sizeof(u64)});
}

WrittenBits BitsShape::strides() const {
  const std::int64_t of_head = product({rows, words});
  return {nullptr, batches > 1 ? product({heads, of_head}) : 0, heads > 1 ? of_head : 0, words,
          product({batches, heads, of_head})};
}

void set_written_bits(const Plan& plan, void* workspace, Arguments& a) {
  const auto written = plan.stages.front().schedule.as<WrittenBits>();
  a.bits = {plan.workspace.at(plan.bits, workspace), written.batch, written.head, written.row};
  a.tile_map = static_cast<i32>(written.map);
}

}  // namespace regard
