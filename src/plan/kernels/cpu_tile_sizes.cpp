// CPU tiles: the sizes that the kernels support (kernels/cpu/tile_sizes.h).
#include <fmt/format.h>

#include "kernels/cpu/tile_sizes.h"
#include "plan/kernels/cpu_tile_sizes.h"
#include "plan/plan_parts.h"
#include "plan/recipe.h"
#include "plan/stage.h"

namespace regard {
namespace {

TileMachine machine_of(const Problem& p, const Target& target, bool decodes) {
  return {.lanes = target.vector_bytes / 4,
          .registers = target.vector_registers,
          .by_element = target.has(Feature::neon),
          .amx = !decodes && tile_unit(p.dtype, target),
          .vnni = decodes ? vector_vnni(p.dtype, target) : vnni(p.dtype, target),
          .pieces = decodes ? 1 : operand_pieces(p.dtype, target),
          .bytes = static_cast<std::int64_t>(bytes_of(p.dtype)),
          .d = p.d,
          .dv = p.dv,
          .words = p.bits || p.dropout > 0};
}

/// "a multiple of 64, 256 or more"
std::string describe(const SizeRule& rule) {
  if (rule.unit == rule.whole) return std::to_string(rule.unit);
  if (rule.whole > 0) return fmt::format("a power of two from {} to {}", rule.unit, rule.whole);
  return fmt::format("a multiple of {}{}", rule.unit,
                     rule.least > rule.unit ? fmt::format(", {} or more", rule.least) : "");
}

Refusal check_size(const Question& q, AlgorithmField field, const SizeRule& rule) {
  const Target::Tile& tile = *q.candidate.tile;
  const std::int64_t size = tile.algorithm.*field;
  if (rule.takes(size)) return {};
  return fmt::format("{}={} of its tile (line {} of targets/{}.toml) must be {}", name_of(field), size,
                     tile.line, q.target.name, describe(rule));
}

Refusal check_tile(const Question& q, TileRules (*rules_of)(const TileMachine&)) {
  const TileRules rules = rules_of(machine_of(q.problem, q.target, /*decodes=*/false));
  if (Refusal wrong = check_size(q, &Algorithm::block_q, rules.block_q)) return wrong;
  return check_size(q, &Algorithm::block_k, rules.block_k);
}

}  // namespace

Refusal forward_tile_sizes(const Question& q) {
  return check_tile(q, [](const TileMachine& machine) { return forward_rules(machine); });
}

Refusal backward_tile_sizes(const Question& q) {
  return check_tile(q, [](const TileMachine& machine) { return backward_rules(machine); });
}

Refusal decode_tile_sizes(const Question& q) {
  const TileMachine machine = machine_of(q.problem, q.target, /*decodes=*/true);
  if (Refusal wrong = check_size(q, &Algorithm::pack_gqa, decode_pack(machine))) return wrong;
  return check_size(q, &Algorithm::block_k, decode_keys(machine));
}

}  // namespace regard
