#include "function/derivative.h"

#include <algorithm>
#include <numbers>
#include <optional>

namespace regard::function {
namespace {

/// Derives with respect to one leaf. A derivative of `none` is 0 everywhere, and no code computes it.
class Derivative {
 public:
  Derivative(Tree& tree, NodeIndex by) : tree_(tree), by_(by), done_(tree.nodes().size()) {}

  NodeIndex of(NodeIndex i) {
    if (i == by_) return tree_.constant(1.0f);
    const Node node = tree_[i];  // a copy: the tree grows
    if (node.kind != Kind::operation || node.type != Type::real) return none;
    std::optional<NodeIndex>& done = done_[static_cast<std::size_t>(i)];
    if (!done) done = of_operation(node, i);
    return *done;
  }

 private:
  NodeIndex apply(Operation operation, const std::vector<NodeIndex>& operands) {
    return *tree_.apply(operation, operands);  // all are fp32, so nothing is refused
  }
  NodeIndex constant(float x) { return tree_.constant(x); }
  bool is_one(NodeIndex i) { return i == tree_.constant(1.0f); }

  NodeIndex sum(NodeIndex a, NodeIndex b) {
    return a == none ? b : b == none ? a : apply(Operation::add, {a, b});
  }
  NodeIndex product(NodeIndex a, NodeIndex b) {
    if (a == none || b == none) return none;
    return is_one(a) ? b : is_one(b) ? a : apply(Operation::multiply, {a, b});
  }
  NodeIndex quotient(NodeIndex a, NodeIndex b) { return a == none ? none : apply(Operation::divide, {a, b}); }
  NodeIndex negative(NodeIndex a) { return a == none ? none : apply(Operation::negate, {a}); }
  /// One of two derivatives, `none` as 0.
  NodeIndex chosen(NodeIndex condition, NodeIndex a, NodeIndex b) {
    if (a == none && b == none) return none;
    const auto zero = [this](NodeIndex i) { return i == none ? constant(0) : i; };
    return apply(Operation::where, {condition, zero(a), zero(b)});
  }

  NodeIndex of_operation(const Node& node, NodeIndex result) {
    const NodeIndex x = node.operands[0], y = node.operands[1];
    switch (node.operation()) {
      case Operation::add:
        return sum(of(x), of(y));
      case Operation::subtract:
        return sum(of(x), negative(of(y)));
      case Operation::multiply:
        return sum(product(of(x), y), product(x, of(y)));
      case Operation::divide:
        return sum(quotient(of(x), y), negative(quotient(product(of(y), result), y)));
      case Operation::modulo:  // x - y * floor(x / y)
        return sum(of(x), negative(product(of(y), apply(Operation::floor_divide, {x, y}))));
      case Operation::negate:
        return negative(of(x));
      case Operation::where:
        return chosen(x, of(y), of(node.operands[2]));
      case Operation::min:
        return of_one(x, y, apply(Operation::less, {x, y}), apply(Operation::less, {y, x}));
      case Operation::max:
        return of_one(x, y, apply(Operation::less, {y, x}), apply(Operation::less, {x, y}));
      case Operation::abs:
        return product(of(x), apply(Operation::sign, {x}));
      case Operation::pow:
        return sum(product(of(x), product(y, apply(Operation::pow, {x, minus_one(y)}))),
                   product(of(y), logarithm_times(x, result)));
      default:
        return product(of(x), of_function(node.operation(), x, result));
    }
  }

  /// Of min and max: that of x where `first` holds, of y where `second` does, and between them at ties.
  NodeIndex of_one(NodeIndex x, NodeIndex y, NodeIndex first, NodeIndex second) {
    const NodeIndex of_x = of(x), of_y = of(y);
    return chosen(first, of_x, chosen(second, of_y, product(constant(0.5f), sum(of_x, of_y))));
  }

  NodeIndex minus_one(NodeIndex x) { return apply(Operation::subtract, {x, constant(1)}); }
  NodeIndex one_minus(NodeIndex x) { return apply(Operation::subtract, {constant(1), x}); }

  /// x^y * log x, and 0 where that power is 0.
  NodeIndex logarithm_times(NodeIndex x, NodeIndex power) {
    return apply(Operation::where, {apply(Operation::equal, {power, constant(0)}), constant(0),
                                    apply(Operation::multiply, {power, apply(Operation::log, {x})})});
  }

  /// The derivative of a function of one number at x, where it is `y`.
  NodeIndex of_function(Operation operation, NodeIndex x, NodeIndex y) {
    constexpr float ln2 = std::numbers::ln2_v<float>;
    switch (operation) {
      case Operation::exp:
        return y;
      case Operation::exp2:
        return product(constant(ln2), y);
      case Operation::log:
        return quotient(constant(1), x);
      case Operation::log2:
        return quotient(constant(1 / ln2), x);
      case Operation::tanh:
        return one_minus(product(y, y));
      case Operation::sigmoid:
        return product(y, one_minus(y));
      case Operation::sqrt:
        return quotient(constant(0.5f), y);
      case Operation::rsqrt:
        return product(constant(-0.5f), product(y, product(y, y)));
      case Operation::sin:
        return apply(Operation::cos, {x});
      case Operation::cos:
        return negative(apply(Operation::sin, {x}));
      default:
        return none;  // steps, and conversions of what is no fp32
    }
  }

  Tree& tree_;
  NodeIndex by_;
  std::vector<std::optional<NodeIndex>> done_;
};

}  // namespace

Derivatives derivatives(Function& function, const std::vector<int>& tensors) {
  Tree& tree = function.tree;
  const auto by = [&](NodeIndex leaf) {
    const NodeIndex derivative = Derivative(tree, leaf).of(function.root);
    return derivative == none ? tree.constant(0.0f) : derivative;
  };
  std::vector<NodeIndex> loads;
  for (NodeIndex i = 0; i <= function.root; ++i) {
    const Node& node = tree[i];
    const bool asked = std::find(tensors.begin(), tensors.end(), node.which) != tensors.end();
    if (node.kind == Kind::load && node.type == Type::real && asked) loads.push_back(i);
  }
  Derivatives result;
  result.by_score = by(tree.variable(Variable::s));
  for (const NodeIndex load : loads) result.loads.push_back({load, by(load)});
  return result;
}

}  // namespace regard::function
