// A function of the score or the mask as a tree whose equal parts are one: nodes with types, each after its
// operands.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "function/limits.h"
#include "function/operation.h"

namespace regard::function {

/// A tensor that a function reads, by its name in the text.
struct Captured {
  std::string name;
  Type type = Type::real;  ///< as which its numbers are read
  int dimensions = 1;

  bool operator==(const Captured&) const = default;
};

/// The index of a node.
using NodeIndex = std::int32_t;
constexpr NodeIndex none = -1;

struct Node {
  Kind kind = Kind::constant;
  Type type = Type::integer;
  std::uint8_t which = 0;
  std::uint32_t bits = 0;  ///< of a constant: of int32, fp32, or 0 and 1
  std::array<NodeIndex, most_dimensions> operands = {none, none, none, none};

  auto operator<=>(const Node&) const = default;
  Operation operation() const { return static_cast<Operation>(which); }
  int count() const;  ///< of operands
};

/// Adds nodes; what was added before is not added again. Operands are converted where types are mixed,
/// operations on constants become constants, and what is the same in another order of operands becomes one
/// node: a > b is b < a, and operands of operations that commute are sorted.
class Tree {
 public:
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& operator[](NodeIndex i) const { return nodes_[static_cast<std::size_t>(i)]; }

  NodeIndex variable(Variable variable);
  NodeIndex number(int index, Type type);
  NodeIndex constant(bool value) { return constant(Type::boolean, value ? 1 : 0); }
  NodeIndex constant(std::int32_t value);
  NodeIndex constant(float value);
  NodeIndex constant(Type type, std::uint32_t bits);
  /// Fails for an index that is not int32.
  Result<NodeIndex> load(int tensor, const Captured& captured, const std::vector<NodeIndex>& indices);
  /// Fails for operands of types that it does not take.
  Result<NodeIndex> apply(Operation operation, const std::vector<NodeIndex>& operands);
  /// Converts a node; a real number becomes an integer only by `int`, and no number becomes a condition.
  Result<NodeIndex> converted(NodeIndex node, Type type);

  /// The largest number of operations from a node to a leaf.
  int depth(NodeIndex node) const { return depths_[static_cast<std::size_t>(node)]; }

 private:
  NodeIndex add(const Node& node);
  NodeIndex simplified(Node node);
  NodeIndex opposite_of(Node node);
  NodeIndex chain(Operation operation, NodeIndex left, NodeIndex right);
  int compare(NodeIndex left, NodeIndex right) const;

  std::vector<Node> nodes_;
  std::vector<int> depths_;
  std::map<Node, NodeIndex> index_;
};

/// A whole function: the root of a tree and the tensors that it names.
struct Function {
  Tree tree;
  NodeIndex root = none;
  std::vector<Captured> tensors;
};

}  // namespace regard::function
