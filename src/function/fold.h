// Operations on constants.
#pragma once

#include <optional>
#include <span>

#include "function/tree.h"

namespace regard::function {

/// Whether a comparison of two numbers of one type holds; nothing if the operation is none.
template <class T>
std::optional<bool> holds(Operation comparison, T x, T y) {
  switch (comparison) {
    case Operation::less:
      return x < y;
    case Operation::less_equal:
      return x <= y;
    case Operation::equal:
      return x == y;
    case Operation::not_equal:
      return x != y;
    default:
      return std::nullopt;
  }
}

/// The bits of the result; nothing where fp32 would have to be rounded by a function whose digits differ
/// between machines.
std::optional<std::uint32_t> folded(Operation operation, std::span<const Node> constants);

}  // namespace regard::function
