// What a function may compute: every operation, once, with how it is written and which types it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/function/operations.h"

namespace regard::function {

std::string_view word(Type type);  ///< bool, int32, fp32

/// What an operation does with the types of its operands.
enum class Typing : std::uint8_t {
  numeric,   ///< int32 or fp32, to which all are converted; the result too
  compared,  ///< the same; the result is bool
  real,      ///< all are converted to fp32; so is the result
  rounded,   ///< fp32; an int32 stays as it is
  logical,   ///< bool
  bitwise,   ///< bool, or int32
  integer,   ///< int32
  chosen,    ///< a bool, then two of a common type, which is that of the result
  to_real,
  to_integer,
};

/// How tightly an operator binds; the same levels as in Python, except that ! binds tightly. A call has none.
enum class Level : std::uint8_t {
  call,
  either,
  both,
  comparison,
  bit_or,
  bit_xor,
  bit_and,
  shift,
  sum,
  product,
  prefix
};

struct OperationInfo {
  std::string_view text;
  int operands;
  Typing typing;
  Level level;
  bool commutes;
};

const OperationInfo& info(Operation operation);

/// All of them, by their number.
std::span<const OperationInfo> operations();

/// The operation that has this name in calls.
std::optional<Operation> called(std::string_view name);

std::span<const std::string_view> variables();

}  // namespace regard::function
