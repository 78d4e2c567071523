// The functions of a call, and their values at a place in the score matrix.
#pragma once

#include <cstdint>
#include <vector>

#include "function/derivative.h"
#include "function/evaluate.h"
#include "problem/functions.h"
#include "regard/regard.h"

namespace regard::oracle {

/// The functions of a problem, in bwd with their derivatives, and the tensors of a call.
class CallFunctions {
 public:
  CallFunctions(const Problem&, const regard_arguments&);

  bool any() const { return functions_.any(); }
  bool has_score() const { return functions_.score.root != function::none; }
  const function::Derivatives& derivatives() const { return derivatives_; }
  const regard_tensor& tensor_of_load(function::NodeIndex load) const {
    return arguments_.tensor[REGARD_CAPTURED_0 + functions_.score.tree[load].which];
  }
  regard_role gradient_of_load(function::NodeIndex load) const {
    return static_cast<regard_role>(REGARD_GRAD_CAPTURED_0 + functions_.score.tree[load].which);
  }

 private:
  friend class PlaceFunctions;

  function::Evaluator evaluator(const function::Function&) const;

  const Problem& problem_;
  const regard_arguments& arguments_;
  Functions functions_;
  function::Derivatives derivatives_;
};

/// A place: the values of the variables by function::Variable, except the score, which is passed separately.
struct FunctionPlace {
  std::int32_t of[11] = {};
};

/// Evaluates the functions at places. Each thread has its own.
class PlaceFunctions {
 public:
  explicit PlaceFunctions(const CallFunctions& call)
      : call_(call),
        score_(call.evaluator(call.functions_.score)),
        keep_(call.evaluator(call.functions_.keep)) {}

  /// Each of these sets `sure` to false if rounding can change which way a condition goes.
  bool keeps(function::Value score, const FunctionPlace&, bool& sure);
  function::Value score(function::Value score, const FunctionPlace&, bool& sure);
  function::Value slope(function::Value score, const FunctionPlace&, bool& sure);
  function::Value derivative(const function::LoadDerivative&, function::Value score, const FunctionPlace&,
                             bool& sure);
  /// Which element a load reads, in row-major order of the tensor.
  std::int64_t element(function::NodeIndex load, function::Value score, const FunctionPlace&, bool& sure);

 private:
  function::Value value(function::Evaluator&, function::NodeIndex, function::Value score,
                        const FunctionPlace&, bool& sure);

  const CallFunctions& call_;
  function::Evaluator score_, keep_;
};

}  // namespace regard::oracle
