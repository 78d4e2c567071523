#include "function/canonical.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace regard::function {
namespace {

class Rewriter {
 public:
  /// `shares`: equal literals become one number, else each has its own, so that two which happen to be equal
  /// do not give another text than two that are not.
  Rewriter(const Function& from, bool shares)
      : from_(from), shares_(shares), done_(from.tree.nodes().size(), none) {
    for (std::size_t i = 0; i < from.tensors.size(); ++i) {
      result_.function.tensors.push_back(from.tensors[i]);
      result_.function.tensors.back().name = fmt::format("t{}", i);
    }
  }

  Canonical rewritten() {
    result_.function.root = node(from_.root);
    return std::move(result_);
  }

 private:
  NodeIndex node(NodeIndex i) {
    const Node& n = from_.tree[i];
    if (n.kind == Kind::constant) return literal(n);
    NodeIndex& done = done_[static_cast<std::size_t>(i)];
    if (done == none) done = rewritten(n);
    return done;
  }

  NodeIndex rewritten(const Node& n) {
    Tree& tree = result_.function.tree;
    if (n.kind == Kind::variable) return tree.variable(static_cast<Variable>(n.which));
    if (n.kind == Kind::number) return tree.number(n.which, n.type);
    std::vector<NodeIndex> operands;
    for (int k = 0; k < n.count(); ++k) {
      const Node& operand = from_.tree[n.operands[k]];
      operands.push_back(operand.kind == Kind::constant && stays(n, k)
                             ? tree.constant(operand.type, operand.bits)
                             : node(n.operands[k]));
    }
    // The types are those that they had, so nothing is refused.
    if (n.kind == Kind::load) return *tree.load(n.which, result_.function.tensors[n.which], operands);
    return *tree.apply(n.operation(), operands);
  }

  /// Whether a literal is part of the text as the k-th operand of a node.
  static bool stays(const Node& n, int k) {
    if (n.kind == Kind::load) return true;
    switch (n.operation()) {
      case Operation::floor_divide:
      case Operation::modulo:
      case Operation::shift_left:
      case Operation::shift_right:
        return k == 1;
      default:
        return false;
    }
  }

  NodeIndex literal(const Node& n) {
    Tree& tree = result_.function.tree;
    const bool finite =
        n.type == Type::integer || (n.type == Type::real && std::isfinite(std::bit_cast<float>(n.bits)));
    if (!finite) return tree.constant(n.type, n.bits);
    const Number number{n.type, n.bits};
    auto& numbers = result_.numbers;
    const auto same = shares_ ? std::find(numbers.begin(), numbers.end(), number) : numbers.end();
    const auto index = static_cast<int>(same - numbers.begin());
    if (same == numbers.end()) numbers.push_back(number);
    return tree.number(index, n.type);
  }

  const Function& from_;
  bool shares_;
  std::vector<NodeIndex> done_;
  Canonical result_;
};

}  // namespace

Result<Canonical> canonical(const Function& function) {
  Canonical result;
  for (const bool shares : {false, true}) {
    result = Rewriter(function, shares).rewritten();
    if (result.numbers.size() <= most_numbers) return result;
  }
  return invalid(fmt::format("a function has at most {} different numbers, and this one has {}", most_numbers,
                             result.numbers.size()));
}

}  // namespace regard::function
