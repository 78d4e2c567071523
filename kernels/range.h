// [begin, end) of keys, rows, tiles or other things that are counted: ends are exclusive. An index called
// `last` is that of the last one itself.
#pragma once

#include "kernels/numbers.h"

namespace regard {

template <class Integer>
struct BasicRange {
  Integer begin, end;

  constexpr REGARD_INLINE bool empty() const { return begin >= end; }
  constexpr REGARD_INLINE Integer count() const { return end - begin; }
  constexpr REGARD_INLINE bool contains(Integer at) const { return at >= begin && at < end; }
  REGARD_INLINE bool overlaps(const BasicRange& other) const {
    return begin < other.end && other.begin < end;
  }
  /// Widens it to include another one and everything between them.
  REGARD_INLINE void join(const BasicRange& other) {
    if (other.empty()) return;
    *this = empty() ? other : BasicRange{smaller(begin, other.begin), larger(end, other.end)};
  }
};

using Range = BasicRange<i64>;
using Range32 = BasicRange<i32>;

/// The part of it that is in [0, end), in 32 bits.
REGARD_INLINE Range32 within(const Range& range, i32 end) {
  const auto inside = [end](i64 at) { return static_cast<i32>(larger<i64>(smaller<i64>(at, end), 0)); };
  return {inside(range.begin), inside(range.end)};
}

}  // namespace regard
