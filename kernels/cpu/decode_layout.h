// How decode.cpp divides the scratch memory of a thread. The plan computes its size with the same constants.
#pragma once

#include "kernels/cpu/forward_layout.h"

namespace regard {

/// What decides whether the tile unit multiplies (decode_amx.h). `unit`: the target has one, and it takes the
/// types of Q, K and V.
struct DecodeTileShape {
  bool unit;
  i64 pack_gqa, d, dv;
};
constexpr bool decode_uses_tiles(const DecodeTileShape& s) {
  return s.unit && s.pack_gqa == 16 && s.d % 32 == 0 && s.dv % 32 == 0;
}

/// The numbers of a key that are copied where its rows are not at the distance of their neighbours.
constexpr i64 decode_copied_numbers(i64 d, i64 dv, bool latent) {
  return latent ? d : d + dv;
}

/// What the layout depends on. `vnni`: operands are pairs of bf16; `pack_gqa`: query rows of one K/V head;
/// `scattered_bytes`: those of a number of K and V that are copied first, else 0; `tiles`: the tile unit
/// multiplies.
struct DecodeShape {
  bool vnni;
  i64 d, dv, pack_gqa, block_k, scattered_bytes;
  bool tiles, latent;
};

/// Offsets in bytes; every part starts at a multiple of 64.
struct DecodeLayout {
  i64 q_stride, output_stride;  // floats from row to row
  i64 q, output, scores, earlier;
  i64 keys;   // rows of a step that are gathered first
  i64 tiles;  // the same, for the tile unit

  constexpr explicit DecodeLayout(const DecodeShape& s)
      : q_stride(whole_parts(s.d) / (s.vnni ? 2 : 1)),
        output_stride(whole_parts(s.dv)),
        q(s.pack_gqa * q_stride * 4),
        output(s.pack_gqa * output_stride * 4),
        scores(CpuForwardLayout::aligned(s.block_k * s.pack_gqa * 4)),
        earlier(earlier_sums(most_lanes, output / 4) * 4),
        keys(CpuForwardLayout::aligned(s.block_k * (s.d + s.dv) * s.scattered_bytes)),
        tiles(s.tiles ? s.block_k * decode_copied_numbers(s.d, s.dv, s.latent) * 2 : 0) {}

  constexpr i64 total() const { return q + output + scores + earlier + keys + tiles; }

 private:
  static constexpr i64 most_lanes = 16;

  /// n rounded up to the largest part of a row (decode_rows.h).
  static constexpr i64 whole_parts(i64 n) { return (n + 63) / 64 * 64; }
};

}  // namespace regard
