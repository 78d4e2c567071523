#include "oracle/functions.h"

#include <algorithm>
#include <cstring>

#include "oracle/number.h"

namespace regard::oracle {
namespace {

using function::Value;

std::int64_t offset_of(const regard_tensor& tensor, std::span<const std::int32_t> index) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * tensor.strides[i];
  return offset;
}

/// One number as a function reads it.
Value number_at(const regard_tensor& tensor, function::Type type, std::int64_t offset) {
  if (tensor.dtype == REGARD_INT64) {
    std::int64_t whole = 0;
    std::memcpy(&whole, static_cast<const std::int64_t*>(tensor.data) + offset, sizeof whole);
    return {.integer = static_cast<std::int32_t>(static_cast<std::uint32_t>(whole))};
  }
  const double number = decode(tensor.dtype, tensor.data, offset);
  if (type == function::Type::real) return {.real = number};
  if (type == function::Type::boolean) return {.integer = number != 0};
  return {.integer = static_cast<std::int32_t>(number)};
}

}  // namespace

CallFunctions::CallFunctions(const Problem& problem, const regard_arguments& arguments)
    : problem_(problem), arguments_(arguments) {
  if (!has_function(problem)) return;
  functions_ = functions_of(problem).value();
  if (problem.pass == Pass::bwd && has_score())
    derivatives_ = function::derivatives(functions_.score, functions_.gradients);
}

function::Evaluator CallFunctions::evaluator(const function::Function& function) const {
  std::vector<function::Evaluator::Tensor> tensors;
  for (std::size_t i = 0; i < functions_.tensors.size(); ++i) {
    const regard_tensor& tensor = arguments_.tensor[REGARD_CAPTURED_0 + static_cast<int>(i)];
    tensors.push_back({{tensor.shape, tensor.shape + std::max(tensor.rank, 0)}});
  }
  const auto read = [this](int tensor, std::span<const std::int32_t> index) {
    const regard_tensor& given = arguments_.tensor[REGARD_CAPTURED_0 + tensor];
    return number_at(given, functions_.tensors[static_cast<std::size_t>(tensor)].type,
                     offset_of(given, index));
  };
  return function::Evaluator(
      function, {problem_.numbers.of.begin(), problem_.numbers.of.begin() + problem_.numbers.count},
      std::move(tensors), read);
}

Value PlaceFunctions::value(function::Evaluator& evaluate, function::NodeIndex node, Value score,
                            const FunctionPlace& place, bool& sure) {
  const Value result = evaluate(node, score, place.of);
  sure = sure && evaluate.is_sure();
  return result;
}

bool PlaceFunctions::keeps(Value score, const FunctionPlace& place, bool& sure) {
  const function::Function& f = call_.functions_.keep;
  return f.root == function::none || value(keep_, f.root, score, place, sure).integer != 0;
}

Value PlaceFunctions::score(Value score, const FunctionPlace& place, bool& sure) {
  if (!call_.has_score()) return score;
  return value(score_, call_.functions_.score.root, score, place, sure);
}

Value PlaceFunctions::slope(Value score, const FunctionPlace& place, bool& sure) {
  return value(score_, call_.derivatives_.by_score, score, place, sure);
}

Value PlaceFunctions::derivative(const function::LoadDerivative& of, Value score, const FunctionPlace& place,
                                 bool& sure) {
  return value(score_, of.derivative, score, place, sure);
}

std::int64_t PlaceFunctions::element(function::NodeIndex load, Value score, const FunctionPlace& place,
                                     bool& sure) {
  const function::Node& node = call_.functions_.score.tree[load];
  const regard_tensor& tensor = call_.tensor_of_load(load);
  std::int64_t element = 0;
  for (int k = 0; k < node.count(); ++k) {
    const std::int64_t last = tensor.shape[k] - 1;
    const std::int64_t index =
        value(score_, node.operands[static_cast<std::size_t>(k)], score, place, sure).integer;
    element = element * (last + 1) + std::clamp<std::int64_t>(index, 0, last);
  }
  return element;
}

}  // namespace regard::oracle
