// How decode.cpp divides the scratch memory of a thread. The plan computes its size with the same constants.
#pragma once

#include "kernels/cpu/forward_layout.h"

namespace regard {

/// What the layout depends on. `vnni`: operands are pairs of bf16; `pack_gqa`: query rows of one K/V head;
/// `scattered_bytes`: those of a number of K and V that are copied first, else 0.
struct DecodeShape {
  bool vnni;
  i64 d, dv, pack_gqa, block_k, scattered_bytes;
};

/// Offsets in bytes; every part starts at a multiple of 64.
struct DecodeLayout {
  i64 q_stride, output_stride;  // floats from row to row
  i64 q, output, scores, earlier;
  i64 keys;  // rows of a step that are gathered first

  constexpr explicit DecodeLayout(const DecodeShape& s)
      : q_stride(whole_parts(s.d) / (s.vnni ? 2 : 1)),
        output_stride(whole_parts(s.dv)),
        q(s.pack_gqa * q_stride * 4),
        output(s.pack_gqa * output_stride * 4),
        scores(CpuForwardLayout::aligned(s.block_k * s.pack_gqa * 4)),
        earlier(earlier_sums(most_lanes, output / 4) * 4),
        keys(CpuForwardLayout::aligned(s.block_k * (s.d + s.dv) * s.scattered_bytes)) {}

  constexpr i64 total() const { return q + output + scores + earlier + keys; }

 private:
  static constexpr i64 most_lanes = 16;

  /// n rounded up to the largest part of a row (decode_rows.h).
  static constexpr i64 whole_parts(i64 n) { return (n + 63) / 64 * 64; }
};

}  // namespace regard
