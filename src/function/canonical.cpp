#include "function/canonical.h"
#include "function/recounted.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace regard::function {
namespace {

/// Whether a literal stays a literal as the k-th operand of a node.
bool stays(const Node& n, int k) {
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

/// Copies a function, with other nodes in place of its literals and numbers, and with its tensors in another
/// order.
template <class Leaf>
class Rewriter {
 public:
  /// `leaf(tree, node, stays)`: the node for a literal or a number.
  Rewriter(const Function& from, const Leaf& leaf) : Rewriter(from, leaf, from.tensors, {}) {}
  /// `places`: of each tensor among those of the result; empty: they stay.
  Rewriter(const Function& from, const Leaf& leaf, std::vector<Captured> tensors, std::vector<int> places)
      : from_(from), leaf_(leaf), done_(from.tree.nodes().size(), none), places_(std::move(places)) {
    result_.tensors = std::move(tensors);
  }

  Function rewritten() {
    result_.root = node(from_.root, false);
    return std::move(result_);
  }

 private:
  NodeIndex node(NodeIndex i, bool stays) {
    const Node& n = from_.tree[i];
    if (n.kind == Kind::constant || n.kind == Kind::number) return leaf_(result_.tree, n, stays);
    NodeIndex& done = done_[static_cast<std::size_t>(i)];
    if (done == none) done = rewritten(n);
    return done;
  }

  NodeIndex rewritten(const Node& n) {
    Tree& tree = result_.tree;
    if (n.kind == Kind::variable) return tree.variable(static_cast<Variable>(n.which));
    std::vector<NodeIndex> operands;
    for (int k = 0; k < n.count(); ++k) operands.push_back(node(n.operands[k], stays(n, k)));
    // The types are those that they had, so nothing is refused.
    if (n.kind == Kind::load) {
      const int tensor = places_.empty() ? n.which : places_[n.which];
      return *tree.load(tensor, result_.tensors[static_cast<std::size_t>(tensor)], operands);
    }
    return *tree.apply(n.operation(), operands);
  }

  const Function& from_;
  const Leaf& leaf_;
  std::vector<NodeIndex> done_;
  std::vector<int> places_;
  Function result_;
};

/// The number in place of a literal, or `none` if the literal stays.
NodeIndex number_of(Tree& tree, const Node& n, bool shares, std::vector<Number>& numbers) {
  const bool finite =
      n.type == Type::integer || (n.type == Type::real && std::isfinite(std::bit_cast<float>(n.bits)));
  if (!finite) return none;
  const Number number{n.type, n.bits};
  const auto same = shares ? std::find(numbers.begin(), numbers.end(), number) : numbers.end();
  const auto index = static_cast<int>(same - numbers.begin());
  if (same == numbers.end()) numbers.push_back(number);
  return tree.number(index, n.type);
}

/// `shares`: equal literals become one number, else each has its own, so that the text does not depend on
/// whether two of them happen to be equal.
Numbered numbered(std::span<const Function> functions, bool shares) {
  Numbered result;
  for (const Function& function : functions) {
    const auto leaf = [&](Tree& tree, const Node& n, bool stays) {
      if (n.kind == Kind::number) return tree.number(n.which, n.type);
      const NodeIndex number = stays ? none : number_of(tree, n, shares, result.numbers);
      return number != none ? number : tree.constant(n.type, n.bits);
    };
    result.functions.push_back(function.root == none ? function : Rewriter(function, leaf).rewritten());
  }
  return result;
}

}  // namespace

Result<Numbered> numbered(std::span<const Function> functions) {
  Numbered result;
  for (const bool shares : {false, true}) {
    result = numbered(functions, shares);
    if (result.numbers.size() <= most_numbers) return result;
  }
  return invalid(fmt::format("a function has at most {} different numbers, and this one has {}", most_numbers,
                             result.numbers.size()));
}

Result<Function> with_literals(const Function& function, std::span<const Number> numbers) {
  if (function.root == none) return function;
  std::optional<Node> missing;
  const auto leaf = [&](Tree& tree, const Node& n, bool) {
    if (n.kind == Kind::constant) return tree.constant(n.type, n.bits);
    const bool known = n.which < numbers.size() && numbers[n.which].type == n.type;
    if (!known) missing = n;
    return tree.constant(n.type, known ? numbers[n.which].bits : 0);
  };
  Function result = Rewriter(function, leaf).rewritten();
  if (!missing) return result;
  return invalid(fmt::format("{}{} has no value; numbers= gives all in order, as in numbers=n0:64,f1:0.5",
                             missing->type == Type::integer ? 'n' : 'f', missing->which));
}

Result<Canonical> canonical(const Function& function) {
  Function renamed = function;
  for (std::size_t i = 0; i < renamed.tensors.size(); ++i) renamed.tensors[i].name = fmt::format("t{}", i);
  Result<Numbered> result = numbered(std::span(&renamed, 1));
  if (!result) return tl::unexpected(result.error());
  return Canonical{std::move(result->functions.front()), std::move(result->numbers)};
}

Recounted recounted(const Function& function) {
  constexpr int unread = -1;
  Recounted result;
  std::vector<int> places_of_tensors(function.tensors.size(), unread),
      places_of_numbers(most_numbers, unread);
  const auto read = [](std::vector<int>& places, std::vector<int>& given, int index) {
    int& place = places[static_cast<std::size_t>(index)];
    if (place != unread) return;
    place = static_cast<int>(given.size());
    given.push_back(index);
  };
  std::vector<Captured> tensors;
  std::vector<bool> done(function.tree.nodes().size());
  std::vector<NodeIndex> left = {function.root};
  while (!left.empty()) {
    const NodeIndex i = left.back();
    left.pop_back();
    if (done[static_cast<std::size_t>(i)]) continue;
    done[static_cast<std::size_t>(i)] = true;
    const Node& n = function.tree[i];
    if (n.kind == Kind::number) read(places_of_numbers, result.numbers, n.which);
    if (n.kind == Kind::load) read(places_of_tensors, result.tensors, n.which);
    for (int k = n.count() - 1; k >= 0; --k) left.push_back(n.operands[static_cast<std::size_t>(k)]);
  }
  for (const int tensor : result.tensors) {
    tensors.push_back(function.tensors[static_cast<std::size_t>(tensor)]);
    tensors.back().name = fmt::format("t{}", tensors.size() - 1);
  }
  const auto leaf = [&](Tree& tree, const Node& n, bool) {
    return n.kind == Kind::number ? tree.number(places_of_numbers[n.which], n.type)
                                  : tree.constant(n.type, n.bits);
  };
  result.function = Rewriter(function, leaf, std::move(tensors), std::move(places_of_tensors)).rewritten();
  return result;
}

}  // namespace regard::function
