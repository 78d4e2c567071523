// What of a function belongs to a kernel, and what is given to it at run time.
#pragma once

#include <cstdint>
#include <vector>

#include "function/tree.h"

namespace regard::function {

/// A number that is given at run time.
struct Number {
  Type type = Type::integer;
  std::uint32_t bits = 0;

  bool operator==(const Number&) const = default;
};

/// A function whose literals are numbers n0, n1, … of int32 and f2, … of fp32, and whose tensors are t0, t1,
/// …: so windows of all widths and documents of all layouts have one text. Divisors, moduli, counts of shifts
/// and places in tensors stay as they are, since code for a constant one is several times as fast; so do
/// infinities.
struct Canonical {
  Function function;
  std::vector<Number> numbers;
};

/// Fails where a function has more numbers than there may be.
Result<Canonical> canonical(const Function& function);

}  // namespace regard::function
