#include "plan/function_sums.h"

#include <bit>

namespace regard {
namespace {

using function::Kind;
using function::Operation;
using function::Variable;

std::optional<PlaceSum> of_variable(Variable variable) {
  switch (variable) {
    case Variable::q:
      return PlaceSum{.q = 1};
    case Variable::kv:
      return PlaceSum{.kv = 1};
    case Variable::p:
      return PlaceSum{.q = 1, .sq = -1, .sk = 1};
    case Variable::sq:
      return PlaceSum{.sq = 1};
    case Variable::sk:
      return PlaceSum{.sk = 1};
    default:
      return {};
  }
}

}  // namespace

std::optional<PlaceSum> sum_of(const function::Function& f, function::NodeIndex index) {
  const function::Node& node = f.tree[index];
  if (node.type != function::Type::integer) return {};
  switch (node.kind) {
    case Kind::constant: {
      const std::int64_t value = std::bit_cast<std::int32_t>(node.bits);
      if (value > most_in_sums || value < -most_in_sums) return {};
      return PlaceSum{.constant = value};
    }
    case Kind::variable:
      return of_variable(static_cast<Variable>(node.which));
    case Kind::operation:
      break;
    default:
      return {};
  }
  const Operation operation = node.operation();
  if (operation == Operation::negate) {
    const std::optional<PlaceSum> x = sum_of(f, node.operands[0]);
    return x ? std::optional(PlaceSum{} - *x) : std::nullopt;
  }
  if (operation != Operation::add && operation != Operation::subtract) return {};
  const std::optional<PlaceSum> x = sum_of(f, node.operands[0]), y = sum_of(f, node.operands[1]);
  if (!x || !y) return {};
  return operation == Operation::subtract ? *x - *y : *x - (PlaceSum{} - *y);
}

}  // namespace regard
