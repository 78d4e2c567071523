// The gradient of an elementwise bias is dS itself. A bias with a separate matrix for every batch and head
// gets its gradient stored directly; the gradient of a broadcast bias is summed in an fp32 image, which
// backward_convert rounds. One block of the grid then covers everything that shares the image's keys, so
// that the order of the sum is fixed.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/backward_tile.h"

namespace regard {

/// The batches or heads that share one bias.
struct BiasShared {
  bool batches, heads;
  bool any() const { return batches || heads; }
};

inline BiasShared bias_shared(const Arguments& a) {
  if constexpr (!config::dbias) return {false, false};
  return {a.grad_bias.batch == 0 && a.b > 1, a.grad_bias.head == 0 && a.hq > 1};
}

/// Where a row starts in the image.
inline i64 bias_image_row(const Arguments& a, i64 batch, i64 head, i64 row) {
  const BiasShared shared = bias_shared(a);
  const i64 matrix = (shared.batches ? 0 : batch) * (shared.heads ? 1 : a.hq) + (shared.heads ? 0 : head);
  return (matrix * a.sq + row) * a.sk;
}

/// Keys that no tile visits, and rows past the sequence, have gradient 0: clears the columns [first, end) of
/// a matrix.
inline void clear_bias_image(const CpuBackwardArguments& a, i64 batch, i64 head, i64 first, i64 end) {
  for (i64 row = 0; row < a.sq && first < end; ++row) {
    const i64 at = bias_image_row(a, batch, head, row) + first;
    __builtin_memset(a.grad_bias_partial + at, 0, (end - first) * 4);
    if (a.grad_bias_lost) __builtin_memset(a.grad_bias_lost + at, 0, (end - first) * 4);
  }
}
inline void clear_bias_rows(const Head& head, i64 first, i64 end) {
  with_bias_type(head.arguments, [&]<DType dtype>() {
    constexpr i64 bytes = bytes_of<dtype>;
    for (i64 row = 0; row < head.arguments.sq && first < end; ++row)
      __builtin_memset(head.address<dtype>(head.arguments.grad_bias, head.head, row) + first * bytes, 0,
                       (end - first) * bytes);
  });
}

/// Adds to a row of the image; if many heads share it, also compensates for the rounding errors of earlier
/// additions.
inline void add_to_bias_image(const CpuBackwardArguments& a, i64 at, const Floats& more, i64 count) {
  float* const sums = a.grad_bias_partial + at;
  if (!a.grad_bias_lost) {
    for (i64 i = 0; i < count; ++i) sums[i] += more[i];
    return;
  }
  float* const lost = a.grad_bias_lost + at;
  for (i64 i = 0; i < count; ++i) {
    const float added = more[i] + lost[i], sum = sums[i] + added;
    lost[i] = sum - sum == 0 ? added - (sum - sums[i]) : 0;  // infinity stays infinity
    sums[i] = sum;
  }
}

/// Writes or adds the tile's dS, [key][query], to rows [query][key].
REGARD_OPTIMIZE inline void store_bias_gradient(const CpuBackwardArguments& a, const TilePosition& position,
                                                const float* grad) {
  const bool image = bias_shared(a).any();
  for (i64 query = 0; query < position.queries; query += lanes) {
    for (i64 first = 0; first < position.keys; first += lanes) {
      Floats square[lanes];
      const i64 count = smaller<i64>(lanes, position.keys - first);
      for (i64 i = 0; i < lanes; ++i)
        square[i] = i < count ? load<Floats>(grad + (first + i) * block_q + query) : Floats{};
      transpose(square);
      for (i64 i = 0; i < lanes && query + i < position.queries; ++i) {
        const i64 row = position.first_query + query + i, column = position.first_key + first;
        if (image) {
          const i64 at = bias_image_row(a, position.head.batch, position.head.head, row) + column;
          add_to_bias_image(a, at, square[i], count);
        } else {
          with_bias_type(a, [&]<DType dtype>() __attribute__((always_inline)) {
            u8* const to = position.head.address<dtype>(a.grad_bias, position.head.head, row);
            if (count == lanes)
              store_floats<dtype>(to + column * bytes_of<dtype>, square[i]);
            else
              store_floats<dtype>(to + column * bytes_of<dtype>, square[i], count);
          });
        }
      }
    }
  }
}

}  // namespace regard
