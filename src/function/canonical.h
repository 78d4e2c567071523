// What of a function belongs to a kernel, and what is given to it at run time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "function/tree.h"

namespace regard::function {

/// A number that is given at run time.
struct Number {
  Type type = Type::integer;
  std::uint32_t bits = 0;

  bool operator==(const Number&) const = default;
};

/// Functions whose literals have become numbers, n0, n1, … of int32 and f2, … of fp32, counted through all
/// functions: so windows of all widths have the same text. Divisors, moduli, counts of shifts and places in
/// tensors stay as they are, since code for a constant one is several times as fast; so do infinities.
struct Numbered {
  std::vector<Function> functions;
  std::vector<Number> numbers;
};

/// Fails if the functions have too many numbers.
Result<Numbered> numbered(std::span<const Function> functions);

/// The opposite: the function with literals in place of its numbers. Fails for a number that is not among
/// them.
Result<Function> with_literals(const Function& function, std::span<const Number> numbers);

/// A function with numbers, whose tensors are t0, t1, …: so the names of tensors do not matter.
struct Canonical {
  Function function;
  std::vector<Number> numbers;
};

/// Fails where a function has more numbers than there may be.
Result<Canonical> canonical(const Function& function);

}  // namespace regard::function
