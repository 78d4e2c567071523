// Prefetches memory that is needed soon into the L2 cache, a few rows at a time while products keep the
// arithmetic units busy; otherwise every step would start by waiting for what it packs.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/numbers.h"

namespace regard {

/// Rows of memory, in the order in which they are fetched. If the queue is full, further rows are left to
/// the hardware. The functions are not inlined: many places add rows, rarely, and each would have to be
/// compiled.
class Prefetcher {
 public:
  /// Adds rows after all others.
  REGARD_NOINLINE void add(const u8* first, i64 stride, i64 bytes, i64 rows) {
    if (rows > 0 && end_ - next_ < capacity) spans_[end_++ % capacity] = {first, stride, bytes, rows};
  }
  /// Adds rows before all others.
  REGARD_NOINLINE void add_first(const u8* first, i64 stride, i64 bytes, i64 rows) {
    if (rows > 0 && end_ - next_ < capacity) spans_[--next_ % capacity] = {first, stride, bytes, rows};
  }

  REGARD_INLINE bool empty() const { return next_ == end_; }

  /// Drops what has not been fetched yet.
  void clear() { next_ = end_ = 0; }

  /// How many rows are waiting.
  i64 rows() const {
    i64 sum = 0;
    for (u32 i = next_; i != end_; ++i) sum += spans_[i % capacity].rows;
    return sum;
  }

  /// Fetches the next rows. Inlined, it would take registers from the products around it.
  REGARD_NOINLINE void fetch(i64 rows) {
    while (!empty() && rows > 0) {
      Span& span = spans_[next_ % capacity];
      for (; span.rows > 0 && rows > 0; --span.rows, --rows, span.row += span.stride)
        for (i64 byte = 0; byte < span.bytes; byte += 64) __builtin_prefetch(span.row + byte, 0, 2);
      if (span.rows == 0) ++next_;
    }
  }

 private:
  struct Span {
    const u8* row;
    i64 stride, bytes, rows;
  };
  static constexpr u32 capacity = config::paged ? 64 : 16;  // a power of two
  Span spans_[capacity];
  u32 next_ = 0, end_ = 0;
};

}  // namespace regard
