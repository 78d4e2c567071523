// Masks that show each row one range of keys.
#pragma once

#include <span>

#include "function/canonical.h"
#include "function/tree.h"

namespace regard::function {

/// A row sees the keys from `begin` up to, but not including, `end`: two int32 numbers that do not depend on
/// the key. They may lie outside the keys that exist, and `end` may be before `begin`.
struct RowRange {
  Function function;  ///< whose root is `begin`
  NodeIndex begin = none, end = none;
};

/// In a problem whose rows and keys are fewer than this, the range has exactly the keys that `keep` shows.
constexpr std::int64_t most_in_ranges = 1 << 28;

/// The range of a condition that consists of comparisons of the key with numbers that do not depend on it.
/// `numbers` are those of the function. Fails, with the reason, where a row may see several ranges or where a
/// sum of the key and such a number may wrap.
Result<RowRange> row_range(const Function& keep, std::span<const Number> numbers);

/// The same range for numbers that are not known yet: that of a call, if `row_range` takes those of the call.
Result<RowRange> row_range_of_any_numbers(const Function& keep);

}  // namespace regard::function
