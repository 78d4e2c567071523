// A function's value in fp64, with a bound on how far fp32 may be from it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "function/canonical.h"
#include "function/tree.h"

namespace regard::function {

struct Value {
  double real = 0;           ///< of fp32
  double bound = 0;          ///< how far the same in fp32 is from it at most, to first order
  std::int32_t integer = 0;  ///< of int32 and bool
};

/// Reads element `index` of a captured tensor.
using Read = std::function<Value(int tensor, std::span<const std::int32_t> index)>;

/// Evaluates a function's nodes at places of the score matrix. Written for clarity.
class Evaluator {
 public:
  /// The sizes of a tensor are those to which its indices are clamped.
  struct Tensor {
    std::vector<std::int64_t> sizes;
  };

  Evaluator(const Function& function, std::vector<Number> numbers, std::vector<Tensor> tensors, Read read)
      : function_(function),
        numbers_(std::move(numbers)),
        tensors_(std::move(tensors)),
        read_(std::move(read)) {}

  /// The value of a node at a place, which is given by the score, and by the other variables in their order.
  Value operator()(NodeIndex node, Value score, std::span<const std::int32_t> variables);

  /// Whether the last value is that of fp32, too, up to its bound: no condition, index or step depended on a
  /// number that rounding may have put on the other side of its threshold.
  bool is_sure() const { return sure_; }

 private:
  Value of(NodeIndex i);
  Value of_node(const Node& node);
  Value load(const Node& node);
  Value of_reals(const Node& node, std::span<const Value> x);
  Value of_whole(const Node& node, std::span<const Value> x);
  std::int32_t compared(Operation operation, const Value& x, const Value& y);
  Value step(double x, double bound, double (*function)(double));
  Value floored_quotient(const Value& x, const Value& y);

  const Function& function_;
  std::vector<Number> numbers_;
  std::vector<Tensor> tensors_;
  Read read_;
  Value score_;
  std::span<const std::int32_t> variables_;
  std::vector<Value> values_;
  std::vector<bool> known_;
  bool sure_ = true;
};

}  // namespace regard::function
