// How decode.cpp divides the scratch memory of a thread. The plan sizes the scratch with the same constants.
#pragma once

#include "kernels/cpu/forward_layout.h"

namespace regard {

/// Sizes in bytes; every part starts at a multiple of 64.
struct DecodeLayout {
  i64 q_stride, output_stride;  // floats from row to row
  i64 q, output, scores, earlier;

  /// `rows`: query rows of one K/V head, key::pack_gqa.
  constexpr DecodeLayout(bool pairs, i64 d, i64 dv, i64 rows, i64 block_k)
      : q_stride(whole_parts(d) / (pairs ? 2 : 1)),
        output_stride(whole_parts(dv)),
        q(rows * q_stride * 4),
        output(rows * output_stride * 4),
        scores(ForwardLayout::aligned(block_k * rows * 4)),
        earlier(earlier_sums(most_lanes, output / 4) * 4) {}

  constexpr i64 total() const { return q + output + scores + earlier; }

 private:
  static constexpr i64 most_lanes = 16;

  /// n rounded up to two vectors of the widest target.
  static constexpr i64 whole_parts(i64 n) { return (n + 31) / 32 * 32; }
};

}  // namespace regard
