// Sums over more keys, or rows of queries, than fp32 can accurately add one after the other.
//
// A block of them is summed from zero and then added to the previous sum, so that a sum over thousands of
// blocks is off by little more than one over a few. Beyond part_of_keys the sum is made in parts, and each
// part is added to the previous ones without loss.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/long_sum_layout.h"

namespace regard {

/// `total` becomes the rounded sum of both, and `recent` the rounding error, which is carried into the next
/// part. A total of infinity or NaN stays as it is.
REGARD_OPTIMIZE inline void add_exactly(float* total, float* recent, i64 count) {
  for (i64 i = 0; i < count; i += lanes) {
    const Floats before = load<Floats>(total + i), more = load<Floats>(recent + i), sum = before + more;
    const Floats added = sum - before, lost = (before - (sum - added)) + (more - added);
    store(total + i, sum);
    store(recent + i, select(sum - sum == 0.0f, lost, Floats{}));
  }
}

/// Sums with many additions.
class LongSums {
 public:
  /// `earlier`: memory for as many numbers, if there will be more than most_additions.
  LongSums(float* sums, float* earlier, i64 count) : sums_(sums), earlier_(earlier), count_(count) {}

  /// Counts one more addition.
  void added() {
    if (++recent_ > most_additions) keep();
  }
  /// Called at the end.
  void finish() {
    if (!kept_) return;
    keep();
    __builtin_memcpy(sums_, earlier_, count_ * 4);
  }

 private:
  REGARD_NOINLINE void keep() {
    if (!kept_) __builtin_memset(earlier_, 0, count_ * 4);
    add_exactly(earlier_, sums_, count_);
    recent_ = 0;
    kept_ = true;
  }

  float *sums_, *earlier_;
  i64 count_, recent_ = 0;
  bool kept_ = false;
};

/// row *= factor of the row
REGARD_NOINLINE inline void rescale_rows(float* numbers, i64 rows, i64 width, const float* factors) {
  for (i64 row = 0; row < rows; ++row)
    for (i64 i = row * width; i < (row + 1) * width; i += lanes)
      store(numbers + i, load<Floats>(numbers + i) * factors[row]);
}

/// step(first, end) for each part of the keys [begin, end).
template <class Step>
REGARD_INLINE void for_parts(i64 begin, i64 end, i64 part, const Step& step) {
  for (i64 next; begin < end; begin = next) {
    next = smaller((begin / part + 1) * part, end);
    step(begin, next);
  }
}

/// The sums of a softmax over some rows, relative to row_max of each.
struct SoftmaxSums {
  float *output, *sum;
  const float* row_max;
  i64 rows, numbers;  // numbers of O; both whole vectors
};

/// The sums of a softmax over the earlier parts of the keys, in memory of the size that earlier_sums gives.
class EarlierSums {
 public:
  explicit EarlierSums(float* memory) : memory_(memory) {}

  void clear(const SoftmaxSums& recent) const {
    __builtin_memset(memory_, 0, (recent.rows + recent.numbers) * 4);
    for (i64 i = 0; i < recent.rows; i += lanes) store(row_max(recent) + i, broadcast(-infinity));
  }

  /// Adds a part. `scale_log2` converts row_max to a base-2 logarithm; rescale(O, factor of each row) adapts
  /// O when row_max changes.
  template <class Rescale>
  REGARD_NOINLINE void add(const SoftmaxSums& recent, float scale_log2, const Rescale& rescale) const {
    constexpr i64 most_rows = 64;
    alignas(64) float factors[most_rows];
    Ints changed{};
    for (i64 i = 0; i < recent.rows; i += lanes) {
      const Floats before = load<Floats>(row_max(recent) + i), now = load<Floats>(recent.row_max + i);
      const Ints moves = before != now;
      const Floats zero = select(now == -infinity, Floats{}, now);
      const Floats factor = select(moves, exp2((before - zero) * scale_log2), broadcast(1.0f));
      changed |= moves;
      store(factors + i, factor);
      store(sum(recent) + i, load<Floats>(sum(recent) + i) * factor);
      store(row_max(recent) + i, now);
    }
    if (any(changed)) rescale(memory_, factors);
    add_exactly(memory_, recent.output, recent.numbers);
    add_exactly(sum(recent), recent.sum, recent.rows);
  }

  /// Replaces the sums of the last part by the whole sum.
  void take(const SoftmaxSums& recent) const {
    __builtin_memcpy(recent.output, memory_, recent.numbers * 4);
    __builtin_memcpy(recent.sum, sum(recent), recent.rows * 4);
  }

 private:
  float* sum(const SoftmaxSums& recent) const { return memory_ + recent.numbers; }
  float* row_max(const SoftmaxSums& recent) const { return sum(recent) + recent.rows; }

  float* memory_;  // O, sums, row_max
};

}  // namespace regard
