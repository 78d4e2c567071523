// The query rows of decode.cu: those of all query heads that share K and V, in the registers of every wave.
#pragma once

#include "kernels/head.h"
#include "kernels/machine/memory.h"
#include "kernels/portable/decode_tile.h"
#include "kernels/portable/element.h"
#include "kernels/portable/pack_gqa.h"

namespace regard {

/// Q as the left operand, in the order in which a lane has the columns of a key. bf16 that becomes fp16 is
/// scaled by a power of two for each row, which makes its largest number as large as fp16 can hold: small
/// numbers lose less than the rounding error of the sum.
class DecodeRows {
  static constexpr bool scales = multiplied != config::dtype;

 public:
  Left left[steps];

  REGARD_DEVICE DecodeRows(const Head& head, const PackedRows& packed, i32 first_row, i32 end_row) {
    const Rows& rows = head.arguments.q;
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const i32 row = first_row + Fragment::row() + half * Fragment::row_step;
      const HeadRow of = packed.of(row);
      const u8* const from =
          row < end_row ? head.q(HeadRow{head.head + of.head, of.row}) + lane() % 4 * of_vector * 2 : nullptr;
      const bool aligned =
          (reinterpret_cast<u64>(rows.data) | static_cast<u64>((rows.batch | rows.head | rows.row) * 2)) %
              16 ==
          0;
      u32 words[chunks][of_vector / 2];
#pragma unroll
      for (i32 c = 0; c < chunks; ++c) load(words[c], from, c * chunk_columns, aligned);
      if constexpr (scales) scale(words, half);
#pragma unroll
      for (i32 step = 0; step < steps; ++step) {
        const u32* const of_step = words[step / steps_of_chunk] + step % steps_of_chunk * 2;
        left[step][half] = of_step[0], left[step][2 + half] = of_step[1];
      }
    }
  }

  /// Scores as if Q had not been scaled.
  REGARD_DEVICE void unscale(Scores& s) const {
    if constexpr (!scales) return;
    each_row([&](i32 m, i32 half) {
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
        for (float& x : s[m][n].x[half]) x *= inverse_[half];
    });
  }

 private:
  REGARD_DEVICE static void load(u32 (&words)[of_vector / 2], const u8* from, i32 column, bool aligned) {
    const bool there = from != nullptr && column + lane() % 4 * of_vector < config::d;
    from += column * 2;
#pragma unroll
    for (i32 i = 0; i < of_vector / 2; i += 4) {
      u32 some[4] = {};
      if (aligned) {
        load_words(some, from + i * 4, there);
      } else if (there) {
#pragma unroll
        for (i32 j = 0; j < 8; ++j)
          some[j / 2] |= u32{global(reinterpret_cast<const u16*>(from))[2 * i + j]} << 16 * (j % 2);
      }
#pragma unroll
      for (i32 j = 0; j < 4; ++j) words[i + j] = some[j];
    }
  }

  /// bf16 to fp16; the row's largest number gets an exponent of 14.
  REGARD_DEVICE void scale(u32 (&words)[chunks][of_vector / 2], i32 half) {
    float most = 0;
    each_number(words, [&](float x, float y) {
      most = fmaxf(most, fmaxf(fabsf(x), fabsf(y)));
      return u32{};
    });
    most = reduce_max(most);
    constexpr u32 bias = 127, largest = 14, last = 253;  // beyond it the inverse would be subnormal
    const u32 exponent = smaller(2 * bias + largest - smaller(bits_as<u32>(most) >> 23, 2 * bias), last);
    const float factor = bits_as<float>(exponent << 23);
    inverse_[half] = bits_as<float>((2 * bias - exponent) << 23);
#pragma unroll
    for (i32 c = 0; c < chunks; ++c)
#pragma unroll
      for (u32& both : words[c]) both = pair<DType::fp16>(low_of(both) * factor, high_of(both) * factor);
  }
  template <class Function>
  REGARD_DEVICE static void each_number(const u32 (&words)[chunks][of_vector / 2], Function function) {
#pragma unroll
    for (i32 c = 0; c < chunks; ++c)
#pragma unroll
      for (const u32 both : words[c]) function(low_of(both), high_of(both));
  }
  REGARD_DEVICE static float low_of(u32 both) { return bits_as<float>(both << 16); }
  REGARD_DEVICE static float high_of(u32 both) { return bits_as<float>(both & 0xffff0000u); }

  float inverse_[2];
};

}  // namespace regard
