#include "function/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>

#include "function/fold.h"

namespace regard::function {
namespace {

/// "'&&' takes conditions, not int32": what an operation says if it is given another type.
tl::unexpected<Error> wrong_type(const OperationInfo& row, Type given, std::string_view takes,
                                 std::string_view remedy) {
  return invalid(fmt::format("'{}' takes {}, not {}; {}", row.text, takes, word(given), remedy));
}

Type common(Type a, Type b) {
  return std::max(a, b);
}

struct Types {
  std::array<Type, 3> operands;
  Type result;
};

/// What the operands are converted to, and the type of the result.
Result<Types> types_of(const OperationInfo& row, std::span<const Type> given) {
  const auto all = [](Type type, Type result) { return Types{{type, type, type}, result}; };
  Type highest = *std::max_element(given.begin(), given.end());
  switch (row.typing) {
    case Typing::numeric:
      highest = common(highest, Type::integer);
      return all(highest, highest);
    case Typing::compared:
      return all(common(highest, Type::integer), Type::boolean);
    case Typing::real:
      return all(Type::real, Type::real);
    case Typing::rounded:
      highest = common(highest, Type::integer);
      return all(highest, highest);
    case Typing::logical:
      if (highest != Type::boolean)
        return wrong_type(row, highest, "conditions", "compare with a number, as in x!=0");
      return all(Type::boolean, Type::boolean);
    case Typing::bitwise:
      if (highest == Type::real)
        return wrong_type(row, highest, "int32 or bool", "int(x) truncates a number");
      return all(highest, highest);
    case Typing::integer:
      if (highest == Type::real) return wrong_type(row, highest, "int32", "int(x) truncates a number");
      return all(Type::integer, Type::integer);
    case Typing::chosen: {
      if (given[0] != Type::boolean)
        return wrong_type(row, given[0], "a condition first", "compare with a number, as in x!=0");
      const Type chosen = common(given[1], given[2]);
      return Types{{Type::boolean, chosen, chosen}, chosen};
    }
    case Typing::to_real:
      return all(given[0], Type::real);
    case Typing::to_integer:
      break;
  }
  return all(given[0], Type::integer);
}

/// Constants and numbers, which are last, all have one rank, so that a text in which numbers replace
/// constants has the same order.
int rank(const Node& node) {
  switch (node.kind) {
    case Kind::variable:
      return 0;
    case Kind::load:
      return 1;
    case Kind::operation:
      return 2;
    case Kind::number:
    case Kind::constant:
      break;
  }
  return 3;
}

}  // namespace

int Node::count() const {
  return static_cast<int>(std::find(operands.begin(), operands.end(), none) - operands.begin());
}

NodeIndex Tree::add(const Node& node) {
  const auto [found, added] = index_.emplace(node, static_cast<NodeIndex>(nodes_.size()));
  if (added) {
    int below = -1;
    for (int i = 0; i < node.count(); ++i) below = std::max(below, depth(node.operands[i]));
    depths_.push_back(below + 1);
    nodes_.push_back(node);
  }
  return found->second;
}

NodeIndex Tree::variable(Variable variable) {
  return add({.kind = Kind::variable,
              .type = variable == Variable::s ? Type::real : Type::integer,
              .which = static_cast<std::uint8_t>(variable)});
}
NodeIndex Tree::number(int index, Type type) {
  return add({.kind = Kind::number, .type = type, .which = static_cast<std::uint8_t>(index)});
}
NodeIndex Tree::constant(std::int32_t value) {
  return constant(Type::integer, std::bit_cast<std::uint32_t>(value));
}
NodeIndex Tree::constant(float value) {
  return constant(Type::real, std::bit_cast<std::uint32_t>(value));
}
NodeIndex Tree::constant(Type type, std::uint32_t bits) {
  return add({.kind = Kind::constant, .type = type, .bits = bits});
}

Result<NodeIndex> Tree::load(int tensor, const Captured& captured, const std::vector<NodeIndex>& indices) {
  if (static_cast<int>(indices.size()) != captured.dimensions)
    return invalid(fmt::format("{} has {} dimension{}, and {} {} given", captured.name, captured.dimensions,
                               captured.dimensions == 1 ? "" : "s", indices.size(),
                               indices.size() == 1 ? "index is" : "indices are"));
  Node node{.kind = Kind::load, .type = captured.type, .which = static_cast<std::uint8_t>(tensor)};
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Result<NodeIndex> index = converted(indices[i], Type::integer);
    if (!index)
      return invalid(fmt::format("an index of {} is fp32; int(x) truncates a number", captured.name));
    node.operands[i] = *index;
  }
  return add(node);
}

Result<NodeIndex> Tree::converted(NodeIndex node, Type type) {
  const Type from = (*this)[node].type;
  if (from == type) return node;
  if (type == Type::boolean)
    return invalid(
        fmt::format("a condition is required here, not {}; compare with a number, as in x!=0", word(from)));
  if (from == Type::real) return invalid("int32 is required here, not fp32; int(x) truncates a number");
  return apply(type == Type::real ? Operation::to_real : Operation::to_integer, {node});
}

Result<NodeIndex> Tree::apply(Operation operation, const std::vector<NodeIndex>& given) {
  const OperationInfo& row = info(operation);
  if (static_cast<int>(given.size()) != row.operands)
    return invalid(fmt::format("{} takes {} operand{}, not {}", row.text, row.operands,
                               row.operands == 1 ? "" : "s", given.size()));
  std::vector<Type> types;
  for (const NodeIndex node : given) types.push_back((*this)[node].type);
  const Result<Types> converts_to = types_of(row, types);
  if (!converts_to) return tl::unexpected(converts_to.error());

  Node node{
      .kind = Kind::operation, .type = converts_to->result, .which = static_cast<std::uint8_t>(operation)};
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Result<NodeIndex> operand = converted(given[i], converts_to->operands[i]);
    if (!operand) return operand;
    node.operands[i] = *operand;
  }
  return simplified(node);
}

/// An operation whose operands have its types: what is the same is written in one way.
NodeIndex Tree::simplified(Node node) {
  auto& [x, y, z, unused] = node.operands;
  const auto type_of = [this](NodeIndex i) { return (*this)[i].type; };
  switch (node.operation()) {
    case Operation::greater:
    case Operation::greater_equal:
      node.which = static_cast<std::uint8_t>(node.operation() == Operation::greater ? Operation::less
                                                                                    : Operation::less_equal);
      std::swap(x, y);
      break;
    case Operation::to_real:
    case Operation::to_integer:
    case Operation::floor:
    case Operation::ceil:
    case Operation::round:
      if (type_of(x) == node.type && (node.type == Type::integer || node.operation() == Operation::to_real))
        return x;
      break;
    case Operation::logical_not:
      if (const NodeIndex opposite = opposite_of((*this)[x]); opposite != none) return opposite;
      break;
    case Operation::logical_and:
    case Operation::logical_or:
      return chain(node.operation(), x, y);
    case Operation::where:
      if (y == z) return y;
      if ((*this)[x].kind == Kind::constant) return (*this)[x].bits != 0 ? y : z;
      break;
    default:
      break;
  }
  std::vector<Node> operands;
  for (int i = 0; i < node.count(); ++i) operands.push_back((*this)[node.operands[i]]);
  const bool constants =
      std::all_of(operands.begin(), operands.end(), [](const Node& n) { return n.kind == Kind::constant; });
  if (constants)
    if (const auto bits = folded(node.operation(), operands)) return constant(node.type, *bits);
  if (info(node.operation()).commutes && compare(y, x) < 0) std::swap(x, y);
  return add(node);
}

/// The condition that is true where this one is not, if it needs no node of its own.
NodeIndex Tree::opposite_of(Node node) {
  if (node.kind != Kind::operation) return none;
  const auto as = [&](Operation operation, NodeIndex x, NodeIndex y) {
    node.which = static_cast<std::uint8_t>(operation);
    node.operands = {x, y, none, none};
    return add(node);
  };
  const NodeIndex x = node.operands[0], y = node.operands[1];
  // With NaN neither of two numbers is less.
  const bool whole = (*this)[x].type != Type::real;
  switch (node.operation()) {
    case Operation::logical_not:
      return x;
    case Operation::equal:
      return as(Operation::not_equal, x, y);
    case Operation::not_equal:
      return as(Operation::equal, x, y);
    case Operation::less:
      return whole ? as(Operation::less_equal, y, x) : none;
    case Operation::less_equal:
      return whole ? as(Operation::less, y, x) : none;
    default:
      return none;
  }
}

/// Conditions joined by one operation, which may be taken in any order: in their own, each once.
NodeIndex Tree::chain(Operation operation, NodeIndex left, NodeIndex right) {
  std::vector<NodeIndex> parts, open = {right, left};
  while (!open.empty()) {
    const NodeIndex part = open.back();
    open.pop_back();
    const Node node = (*this)[part];
    if (node.kind == Kind::operation && node.operation() == operation) {
      open.push_back(node.operands[1]);
      open.push_back(node.operands[0]);
    } else if (node.kind == Kind::constant) {
      const bool decides = (node.bits != 0) == (operation == Operation::logical_or);
      if (decides) return part;
    } else if (std::find(parts.begin(), parts.end(), part) == parts.end()) {
      parts.push_back(part);
    }
  }
  if (parts.empty()) return constant(operation == Operation::logical_and);
  std::stable_sort(parts.begin(), parts.end(),
                   [this](NodeIndex a, NodeIndex b) { return compare(a, b) < 0; });
  NodeIndex all = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i)
    all = add({.kind = Kind::operation,
               .type = Type::boolean,
               .which = static_cast<std::uint8_t>(operation),
               .operands = {all, parts[i], none, none}});
  return all;
}

int Tree::compare(NodeIndex left, NodeIndex right) const {
  if (left == right) return 0;
  const Node &a = (*this)[left], &b = (*this)[right];
  if (rank(a) != rank(b)) return rank(a) - rank(b);
  if (rank(a) == 3) return static_cast<int>(a.type) - static_cast<int>(b.type);
  if (a.which != b.which) return a.which - b.which;
  for (int i = 0; i < a.count(); ++i)
    if (const int order = compare(a.operands[i], b.operands[i]); order != 0) return order;
  return 0;
}

}  // namespace regard::function
