// Forward attention for every valid signature, with dtypes, head dimensions and features known only at run
// time: the kernel that always works, and the reference for the faster ones.
//
// A block is up to 64 query rows of one (batch, head). It walks the visible keys 64 at a time: K and V of a
// step are converted to fp32 once, followed by scores, online softmax and the product with V, all in fp32.
// As the first stage of another kernel's plan, it writes the bits of a mask that is a function, or its ranges
// of keys, instead.
#include "kernels/cpu/attributes.h"
#include "kernels/cpu/flush_to_zero.h"
#include "kernels/cpu/generic_keys.h"
#include "kernels/cpu/generic_mask.h"
#include "kernels/cpu/generic_product.h"
#include "kernels/cpu/generic_ranges.h"
#include "kernels/cpu/generic_scores.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/long_sum.h"
#include "kernels/cpu/softmax.h"
#include "kernels/kernel_arguments.h"

namespace regard::generic {

constexpr i64 key_part = part_of_keys(tile_keys);

class Forward {
 public:
  Forward(const Arguments& a, const FunctionCall* function, const QueryRows& rows, float* scratch)
      : a_(a),
        rows_(rows),
        layout_(a.d, a.dv),
        width_q_(GenericLayout::padded(a.d)),
        width_(GenericLayout::padded(a.dv)),
        function_(a, function, scratch + layout_.forward_bytes() / 4) {
    const auto take = [&scratch](i64 count) {
      scratch += count;
      return scratch - count;
    };
    q_ = take(layout_.q);
    output_ = take(layout_.grad_o);
    k_ = take(layout_.k);
    k_columns_ = take(layout_.k_columns);
    v_ = take(layout_.v);
    scores_ = take(layout_.scores);
    bias_row_ = take(tile_keys);
    keep_ = take(tile_keys);
    earlier_ = take(earlier_sums(tile_rows, layout_.grad_o));
  }

  void run() {
    start();
    const Range seen = rows_.visible.common.any;
    const i64 begin = seen.begin / tile_keys * tile_keys, end = seen.end;
    if (is_long_sum(begin, end, key_part))
      walk_long_sum(begin, end);
    else
      walk(begin, end);
    finish();
    if (a_.dropout_mask.data) write_dropout_mask();
  }

 private:
  /// More keys than can be summed in one chain.
  REGARD_NOINLINE void walk_long_sum(i64 begin, i64 end) {
    const EarlierSums earlier(earlier_);
    const SoftmaxSums sums{output_, sum_, maximum_, tile_rows, layout_.grad_o};
    earlier.clear(sums);
    for_parts(begin, end, key_part, [&](i64 part_begin, i64 part_end) {
      walk(part_begin, part_end);
      earlier.add(sums, log2_of_e, [this](float* output, const float* factors) {
        rescale_rows(output, tile_rows, width_, factors);
      });
    });
    earlier.take(sums);
  }

  /// All steps of the keys [begin, end), the first of which starts at `begin`.
  void walk(i64 begin, i64 end) {
    const FlushToZero mode;
    for (i64 key = begin; key < end; key += tile_keys)
      if (rows_.sees_any(key)) step(key);
  }

  void start() {
    load_tile(q_, rows_.q(), rows_.computed());
    __builtin_memset(output_, 0, static_cast<u64>(layout_.grad_o) * 4);
    // A learned sink is a key without a value that is seen before all others.
    const float sink = a_.sink ? a_.sink[rows_.head] : -infinity;
    for (i64 i = 0; i < tile_rows; ++i) {
      maximum_[i] = sink;
      row_max_[i] = -infinity;
      sum_[i] = sink == -infinity ? 0.0f : 1.0f;
    }
  }

  void step(i64 first_key) {
    load_keys(k_, rows_, keys_of(a_), first_key);
    transpose_tile(k_columns_, k_, a_.d);
    load_keys(v_, rows_, values_of(a_), first_key);

    make_product(scores_, tile_keys, {q_, width_q_, 1}, k_columns_, tile_keys, rows_.computed(), tile_keys,
                 a_.d);
    for (i64 i = 0; i < rows_.count; ++i) {
      modify_row(rows_, i, first_key, scores_ + i * tile_keys, nullptr, bias_row_, function_);
      softmax(i, first_key, scores_ + i * tile_keys);
    }
    add_product(output_, width_, {scores_, tile_keys, 1}, v_, width_, rows_.computed(), width_, tile_keys);
  }

  /// Scores of one row become weights exp(score - maximum); the row's sums so far are rescaled when the
  /// maximum grows.
  REGARD_OPTIMIZE void softmax(i64 i, i64 first_key, float* row) {
    Floats largest = broadcast(row_max_[i]);
    for (i64 key = 0; key < tile_keys; key += lanes) largest = max(largest, load<Floats>(row + key));
    row_max_[i] = largest_of(largest);
    const float maximum = larger(maximum_[i], row_max_[i]);
    // A row that has seen no key yet has maximum -infinity; -infinity - -infinity would be NaN.
    const float zero = maximum == -infinity ? 0.0f : maximum;
    Floats sum{};
    for (i64 key = 0; key < tile_keys; key += lanes) {
      const Floats weight = exp2((load<Floats>(row + key) - zero) * log2_of_e);
      store(row + key, weight);
      sum += weight;
    }
    if (maximum != maximum_[i]) {
      const float factor = exp2_of((maximum_[i] - zero) * log2_of_e);
      sum_[i] *= factor;
      for (i64 c = 0; c < width_; c += lanes)
        store(output_ + i * width_ + c, load<Floats>(output_ + i * width_ + c) * factor);
      maximum_[i] = maximum;
    }
    sum_[i] += sum_of(sum);
    if (drops(a_)) {
      draw_dropout(rows_, i, first_key, keep_);
      for (i64 key = 0; key < tile_keys; key += lanes)
        store(row + key, load<Floats>(row + key) * load<Floats>(keep_ + key));
    }
  }

  void finish() {
    const float scale = a_.dropout_scale * rows_.descale_of_keys(a_.descale_v);
    for (i64 i = 0; i < rows_.count; ++i) {
      const i64 row = rows_.sequence.first_q + rows_.first + i;
      const bool empty = sum_[i] == 0;  // NaN if a score is NaN, which the maximum ignores
      store_row(address(a_.o, a_.out, rows_.batch(), rows_.head, row), output_ + i * width_,
                empty ? 0.0f : scale / sum_[i], a_.out, a_.dv);
      if (a_.lse.data)
        *row_of<float>(a_.lse, rows_.batch(), rows_.head, row) =
            empty ? -infinity : maximum_[i] + log(broadcast(sum_[i]))[0];
      if (a_.row_max.data)
        *row_of<float>(a_.row_max, rows_.batch(), rows_.head, row) =
            row_max_of(broadcast(row_max_[i]), broadcast(sum_[i]), 1.0f)[0];
    }
  }

  /// Stores the mask itself, 1 = kept, for tests: every column of the sequence, whether a row sees it or
  /// not.
  void write_dropout_mask() {
    for (i64 i = 0; i < rows_.count; ++i) {
      u8* to =
          row_of<u8>(a_.dropout_mask, rows_.batch(), rows_.head, rows_.sequence.first_q + rows_.first + i);
      for (i64 first = 0; first < rows_.sequence.sk; first += tile_keys) {
        draw_dropout(rows_, i, first, keep_);
        for (i64 key = 0; key < smaller(tile_keys, rows_.sequence.sk - first); ++key)
          to[first + key] = keep_[key] > 0 ? 1 : 0;
      }
    }
  }

  const Arguments& a_;
  const QueryRows& rows_;
  GenericLayout layout_;
  i64 width_q_, width_;  // columns of a row of Q and K, and of O and V
  FunctionRows function_;
  float *q_, *output_, *k_, *k_columns_, *v_, *scores_, *bias_row_, *keep_, *earlier_;
  float maximum_[tile_rows], sum_[tile_rows], row_max_[tile_rows];
};

}  // namespace regard::generic

REGARD_KERNEL(REGARD_SYMBOL) {
  using namespace regard;
  const auto& a = static_cast<const KernelArguments<GenericSchedule>&>(*arguments);
  if (a.words) return generic::MaskWriter(a, a, {a, a.function, static_cast<float*>(scratch)}, block).run();
  if (a.ranges_to_write)
    return generic::RangeWriter(a, a.function, static_cast<float*>(scratch)).run(block, a.ranges_to_write);
  const auto rows = generic::QueryRows::of_block(a, block);
  if (rows.count > 0) generic::Forward(a, a.function, rows, static_cast<float*>(scratch)).run();
}
