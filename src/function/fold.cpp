#include "function/fold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "function/arithmetic.h"

namespace regard::function {
namespace {

std::int32_t integer(const Node& node) {
  return std::bit_cast<std::int32_t>(node.bits);
}
float real(const Node& node) {
  return std::bit_cast<float>(node.bits);
}

std::optional<std::uint32_t> of_integers(Operation operation, std::int32_t x, std::int32_t y) {
  if (const auto result = holds(operation, x, y)) return *result;
  switch (operation) {
    case Operation::add:
      return bits(x) + bits(y);
    case Operation::subtract:
      return bits(x) - bits(y);
    case Operation::multiply:
      return bits(x) * bits(y);
    case Operation::floor_divide:
      return bits(floor_quotient(x, y));
    case Operation::modulo:
      return bits(floor_remainder(x, y));
    case Operation::shift_left:
      return bits(shifted_left(x, y));
    case Operation::shift_right:
      return bits(shifted_right(x, y));
    case Operation::bit_and:
      return bits(x) & bits(y);
    case Operation::bit_or:
      return bits(x) | bits(y);
    case Operation::bit_xor:
      return bits(x) ^ bits(y);
    case Operation::bit_not:
      return ~bits(x);
    case Operation::negate:
      return bits(negative(x));
    case Operation::abs:
      return bits(x < 0 ? negative(x) : x);
    case Operation::sign:
      return bits(x > 0 ? 1 : x < 0 ? -1 : 0);
    case Operation::min:
      return bits(std::min(x, y));
    case Operation::max:
      return bits(std::max(x, y));
    default:
      return std::nullopt;
  }
}

std::optional<std::uint32_t> of_conditions(Operation operation, bool x, bool y) {
  switch (operation) {
    case Operation::logical_not:
    case Operation::bit_not:
      return !x;
    case Operation::bit_and:
      return x && y;
    case Operation::bit_or:
      return x || y;
    case Operation::bit_xor:
      return x != y;
    default:
      return std::nullopt;
  }
}

/// NaN if one of them is.
float least(float x, float y, bool largest) {
  if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<float>::quiet_NaN();
  return largest ? std::max(x, y) : std::min(x, y);
}

std::optional<std::uint32_t> of_reals(Operation operation, float x, float y) {
  if (const auto result = holds(operation, x, y)) return *result;
  const auto as = [](float result) { return std::bit_cast<std::uint32_t>(result); };
  switch (operation) {
    case Operation::add:
      return as(x + y);
    case Operation::subtract:
      return as(x - y);
    case Operation::multiply:
      return as(x * y);
    case Operation::divide:
      return as(x / y);
    case Operation::floor_divide:
      return as(std::floor(x / y));
    case Operation::modulo:
      return as(x - y * std::floor(x / y));
    case Operation::negate:
      return as(-x);
    case Operation::abs:
      return as(std::fabs(x));
    case Operation::sign:
      return as(std::isnan(x) ? x : x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f);
    case Operation::floor:
      return as(std::floor(x));
    case Operation::ceil:
      return as(std::ceil(x));
    case Operation::round:
      return as(std::nearbyint(x));  // halves to even
    case Operation::sqrt:
      return as(std::sqrt(x));
    case Operation::min:
    case Operation::max:
      return as(least(x, y, operation == Operation::max));
    case Operation::to_integer:
      return bits(integer_of(x));
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::uint32_t> folded(Operation operation, std::span<const Node> constants) {
  const Node &x = constants.front(), &y = constants.back();
  if (operation == Operation::to_real)
    return std::bit_cast<std::uint32_t>(x.type == Type::boolean ? static_cast<float>(x.bits)
                                                                : static_cast<float>(integer(x)));
  if (operation == Operation::to_integer && x.type == Type::boolean) return x.bits;
  switch (x.type) {
    case Type::boolean:
      return of_conditions(operation, x.bits != 0, y.bits != 0);
    case Type::integer:
      return of_integers(operation, integer(x), integer(y));
    case Type::real:
      break;
  }
  return of_reals(operation, real(x), real(y));
}

}  // namespace regard::function
