#include "function/evaluate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "function/arithmetic.h"
#include "function/fold.h"

namespace regard::function {
namespace {

constexpr double epsilon = 1.0 / (1 << 24);  // half a unit in the last place of fp32
/// What a function other than + - * / and sqrt may be wrong by, in such halves.
constexpr double of_function = 8;

Value real(double x, double bound) {
  return {.real = x, .bound = std::isfinite(x) ? bound : 0};
}
Value whole(std::int32_t x) {
  return {.integer = x};
}
/// A result that fp32 rounds once.
Value rounded(double x, double bound, double halves = 1) {
  return real(x, bound + halves * epsilon * std::fabs(x) + std::numeric_limits<float>::denorm_min());
}

}  // namespace

Value Evaluator::operator()(NodeIndex node, Value score, std::span<const std::int32_t> variables) {
  score_ = score;
  variables_ = variables;
  sure_ = true;
  values_.assign(function_.tree.nodes().size(), {});
  known_.assign(function_.tree.nodes().size(), false);
  return of(node);
}

Value Evaluator::of(NodeIndex i) {
  const auto index = static_cast<std::size_t>(i);
  if (!known_[index]) {
    values_[index] = of_node(function_.tree[i]);
    known_[index] = true;
  }
  return values_[index];
}

Value Evaluator::of_node(const Node& node) {
  const auto literal = [&](std::uint32_t bits) {
    return node.type == Type::real ? real(std::bit_cast<float>(bits), 0)
                                   : whole(std::bit_cast<std::int32_t>(bits));
  };
  switch (node.kind) {
    case Kind::variable:
      return static_cast<Variable>(node.which) == Variable::s ? score_ : whole(variables_[node.which]);
    case Kind::number:
      return literal(numbers_[node.which].bits);
    case Kind::constant:
      return literal(node.bits);
    case Kind::load:
      return load(node);
    case Kind::operation:
      break;
  }
  // Only the side that is taken is evaluated, so the other cannot make the value NaN or unsure.
  if (node.operation() == Operation::where)
    return of(of(node.operands[0]).integer != 0 ? node.operands[1] : node.operands[2]);
  std::array<Value, 3> x;
  for (int k = 0; k < node.count(); ++k) x[static_cast<std::size_t>(k)] = of(node.operands[k]);
  const bool of_real = function_.tree[node.operands[0]].type == Type::real;
  return of_real ? of_reals(node, x) : of_whole(node, x);
}

Value Evaluator::load(const Node& node) {
  std::vector<std::int32_t> index;
  const std::vector<std::int64_t>& sizes = tensors_[node.which].sizes;
  for (int k = 0; k < node.count(); ++k) {
    const std::int64_t last = sizes[static_cast<std::size_t>(k)] - 1;
    const std::int64_t at =
        std::clamp<std::int64_t>(of(node.operands[k]).integer, 0, std::max<std::int64_t>(last, 0));
    index.push_back(static_cast<std::int32_t>(at));
  }
  return read_(node.which, index);
}

/// Whole numbers have no rounding; to fp32 they are rounded once.
Value Evaluator::of_whole(const Node& node, std::span<const Value> x) {
  if (node.operation() == Operation::to_real) return real(static_cast<float>(x[0].integer), 0);
  const Type type = function_.tree[node.operands[0]].type;
  if (node.operation() == Operation::logical_and) return whole(x[0].integer != 0 && x[1].integer != 0);
  if (node.operation() == Operation::logical_or) return whole(x[0].integer != 0 || x[1].integer != 0);
  std::array<Node, 2> constants;
  for (std::size_t k = 0; k < 2; ++k) constants[k] = {.type = type, .bits = bits(x[k].integer)};
  const auto count = static_cast<std::size_t>(node.count());
  return whole(std::bit_cast<std::int32_t>(*folded(node.operation(), std::span(constants).first(count))));
}

std::int32_t Evaluator::compared(Operation operation, const Value& x, const Value& y) {
  const double difference = std::fabs(x.real - y.real), bound = x.bound + y.bound;
  if (bound > 0 && difference <= bound) sure_ = false;
  return *holds(operation, x.real, y.real);
}

/// floor and the like, whose result depends on which side of a whole number, or of the middle of two, x is
/// on.
Value Evaluator::step(double x, double bound, double (*function)(double)) {
  const double result = function(x);
  if (function(x - bound) != result || function(x + bound) != result) sure_ = false;
  return real(result, 0);
}

Value Evaluator::floored_quotient(const Value& x, const Value& y) {
  const double quotient = x.real / y.real;
  const double bound = (x.bound + std::fabs(quotient) * y.bound) / std::fabs(y.real);
  return step(quotient, bound + epsilon * std::fabs(quotient), std::floor);
}

Value Evaluator::of_reals(const Node& node, std::span<const Value> operands) {
  const double x = operands[0].real, y = operands[1].real, ex = operands[0].bound, ey = operands[1].bound;
  switch (node.operation()) {
    case Operation::add:
      return rounded(x + y, ex + ey);
    case Operation::subtract:
      return rounded(x - y, ex + ey);
    case Operation::multiply:
      return rounded(x * y, std::fabs(x) * ey + std::fabs(y) * ex);
    case Operation::divide:
      return rounded(x / y, (ex + std::fabs(x / y) * ey) / std::fabs(y));
    case Operation::floor_divide:
      return floored_quotient(operands[0], operands[1]);
    case Operation::modulo: {
      const double quotient = floored_quotient(operands[0], operands[1]).real;
      return rounded(x - y * quotient, ex + std::fabs(quotient) * ey, 1 + std::fabs(quotient));
    }
    case Operation::negate:
      return real(-x, ex);
    case Operation::abs:
      return real(std::fabs(x), ex);
    case Operation::sign:
      if (ex > 0 && std::fabs(x) <= ex) sure_ = false;
      return real(std::isnan(x) ? x : (x > 0) - (x < 0), 0);
    case Operation::min:
    case Operation::max: {
      if (std::isnan(x) || std::isnan(y)) return real(std::numeric_limits<double>::quiet_NaN(), 0);
      const bool first = node.operation() == Operation::min ? x <= y : x >= y;
      return real(first ? x : y, std::max(ex, ey));
    }
    case Operation::floor:
      return step(x, ex, std::floor);
    case Operation::ceil:
      return step(x, ex, std::ceil);
    case Operation::round:
      return step(x, ex, std::nearbyint);
    case Operation::to_integer: {
      const Value cut = step(x, ex, std::trunc);
      return whole(integer_of(cut.real));
    }
    case Operation::less:
    case Operation::less_equal:
    case Operation::equal:
    case Operation::not_equal:
      return whole(compared(node.operation(), operands[0], operands[1]));
    case Operation::exp:
      return rounded(std::exp(x), std::exp(x) * ex, of_function);
    case Operation::exp2:
      return rounded(std::exp2(x), std::exp2(x) * std::log(2.0) * ex, of_function);
    case Operation::log:
      return rounded(std::log(x), ex / std::fabs(x), of_function);
    case Operation::log2:
      return rounded(std::log2(x), ex / (std::fabs(x) * std::log(2.0)), of_function);
    case Operation::tanh:
      return rounded(std::tanh(x), ex, of_function);
    case Operation::sigmoid:
      return rounded(1 / (1 + std::exp(-x)), ex, of_function);
    case Operation::sqrt:
      return rounded(std::sqrt(x), ex / (2 * std::sqrt(x)), of_function);
    case Operation::rsqrt:
      return rounded(1 / std::sqrt(x), ex / (2 * x * std::sqrt(x)), of_function);
    case Operation::sin:
      return rounded(std::sin(x), ex, of_function);
    case Operation::cos:
      return rounded(std::cos(x), ex, of_function);
    case Operation::pow: {
      const double power = std::pow(x, y);
      return rounded(power,
                     std::fabs(power) * (std::fabs(y / x) * ex + std::fabs(std::log(std::fabs(x))) * ey),
                     of_function);
    }
    default:
      return real(x, ex);  // float(x) of fp32
  }
}

}  // namespace regard::function
