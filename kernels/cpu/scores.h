// Which rows the lanes of a tile of scores hold, and what happens to it between the product and the softmax:
// soft cap, mask, bias. This is the only place where scores are changed.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/cached_keys.h"
#include "kernels/cpu/forward_layout.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/transpose.h"

namespace regard {

// Query rows that share K and V are numbered consecutively: all rows of their first head, then those of the
// next. The forward kernel numbers only the rows of one head if the plan keeps heads separate, as with
// dropout, where a vector of lanes draws random numbers for one head.

/// The row with this number, in the heads from `first_head` on.
REGARD_INLINE HeadRow row_by_number(const Head& first_head, i64 number) {
  const i64 sq = first_head.sequence.sq;
  return {first_head.head + number / sq, number % sq};
}

/// Which row of which head each lane of a tile holds. Lanes past the last row repeat it: they cost nothing
/// and are never stored.
template <int capacity>
struct LaneRows {
  i32 head[capacity], row[capacity];
  alignas(64) float slope[capacity];  // of ALiBi

  /// The rows numbered [first, first + count).
  REGARD_NOINLINE void find(const Head& first_head, i64 first, i64 count) {
    HeadRow head_row = row_by_number(first_head, first);
    for (i64 lane = 0; lane < capacity; ++lane) {
      head[lane] = static_cast<i32>(head_row.head);
      row[lane] = static_cast<i32>(head_row.row);
      if constexpr (alibi) slope[lane] = first_head.alibi_slope_of(head_row.head);
      if (lane + 1 < count && ++head_row.row == first_head.sequence.sq) head_row = {head_row.head + 1, 0};
    }
  }

  HeadRow at(i64 lane) const { return {head[lane], row[lane]}; }
  bool of_one_head() const { return head[0] == head[capacity - 1]; }
};

/// Scores of a tile are stored as [key][tile]: one lane per query row.
constexpr i64 tile = CpuForwardLayout::tile;

/// Whether more than a factor and a mask comes between Q K^T and the softmax.
constexpr bool changes_scores = config::softcap || alibi || elementwise_bias;

/// Where the factor of Q K^T is applied. The softmax applies a positive factor at no cost (the largest score
/// is then the largest product); if scores are changed it is applied earlier, divided by the soft cap, which
/// is the argument that tanh takes.
struct CpuScoreScale {
  float before, in_softmax;

  /// `of_keys`: the factor of K.
  CpuScoreScale(const Arguments& a, float of_keys) {
    const float scale = a.scale * of_keys;
    const bool late = !changes_scores && scale > 0;
    before = late ? 1.0f : config::softcap ? scale / a.softcap : scale;
    in_softmax = late ? scale : 1.0f;
  }
};

/// The part of a tile that is being processed, [begin, end) of the step's keys, and the side inputs of just
/// this part.
struct ForwardScoreTile {
  float* scores;
  const LaneRows<tile>* lane_rows;
  i64 first_key;  // of the step
  i64 begin, end;
  const RowFactors<config::block_k>* factors;
  const float* bias;                         // [key][tile], see load_bias
  u32 bits[config::block_k / 32 + 1][tile];  // see load_bits
};

/// The tile's words of the packed visibility bits, one word per row and 32 keys; false when none is set.
inline bool load_bits(const Head& head, ForwardScoreTile& part) {
  u32 found = 0;
  for (i64 word = part.begin / 32; word * 32 < part.end; ++word) {
    const bool exists = part.first_key + word * 32 < head.sequence.sk;
    for (i64 i = 0; i < tile; ++i) {
      const u32* words =
          row_of<const u32>(head.arguments.bits, head.batch, part.lane_rows->head[i], part.lane_rows->row[i]);
      part.bits[word][i] = exists ? words[part.first_key / 32 + word] : 0;
      found |= part.bits[word][i];
    }
  }
  return found != 0;
}

/// Elementwise bias with its rows in lanes.
template <DType dtype>
void load_bias(const Head& head, const ForwardScoreTile& part, float* bias) {
  const Rows& rows = head.arguments.bias;
  const i64 keys = head.sequence.sk - part.first_key;
  for (i64 lane = 0; lane < tile; lane += lanes) {
    const u8* from[lanes];
    for (i64 i = 0; i < lanes; ++i)
      from[i] = head.address<dtype>(rows, part.lane_rows->head[lane + i], part.lane_rows->row[lane + i]) +
                part.first_key * bytes_of<dtype>;
    load_transposed<dtype, config::block_k, tile>(bias + lane, part.begin, part.end, keys, from);
  }
}
inline void load_bias(const Head& head, ForwardScoreTile& part, float* bias) {
  with_bias_type(head.arguments, [&]<DType dtype>() { load_bias<dtype>(head, part, bias); });
  part.bias = bias;
}

/// Applies the soft cap, if there is one, to two vectors of scores already divided by it.
REGARD_INLINE void soften([[maybe_unused]] const Arguments& a, Floats& s, Floats& t) {
  if constexpr (config::softcap) {
    if (near_0(s, t)) {  // nearly always: scores far below their cap
      s = tanh_near_0(s);
      t = tanh_near_0(t);
    } else {
      s = tanh_by_lane(s);
      t = tanh_by_lane(t);
    }
    s *= a.softcap;
    t *= a.softcap;
  }
}

/// Everything else between Q K^T and the softmax, except the mask. `distance` is the distance of each lane's
/// key from the diagonal.
REGARD_INLINE Floats add_bias(Floats s, Floats bias, Floats slope, Ints distance) {
  if constexpr (elementwise_bias) s += bias;
  if constexpr (alibi) {
    const Floats signed_distance = __builtin_convertvector(distance, Floats);
    s -= slope * max(signed_distance, -signed_distance);
  }
  return s;
}

static_assert(key_step % 2 == 0);

/// Scores of the keys [begin, end), an even number, and the rows of the lanes [first_lane, end_lane), as the
/// softmax takes them, and the maximum of each row. `scale` is 1 if the softmax applies it. `masked`: some
/// row does not see some of the keys.
inline void modify_scores(const Head& head, const ForwardScoreTile& part, const TileKeyRanges<tile>& visible,
                          float scale, bool masked, i64 begin, i64 end, i64 first_lane, i64 end_lane,
                          float* maximum) {
  const i64 bottom_right = head.sequence.bottom_right();
  for (i64 lane = first_lane; lane < end_lane; lane += lanes) {
    Floats largest = load<Floats>(maximum + lane);
    const auto rows = visible.lanes_from(lane);
    const Floats slope = alibi ? load<Floats>(part.lane_rows->slope + lane) : Floats{};
    const Ints row = load<Ints>(part.lane_rows->row + lane);
    const auto finish = [&](i64 key, Floats s) __attribute__((always_inline)) {
      float* const score = part.scores + key * tile + lane;
      const Ints distance = row + static_cast<i32>(bottom_right - part.first_key - key);
      s = add_bias(s, elementwise_bias ? load<Floats>(part.bias + key * tile + lane) : Floats{}, slope,
                   distance);
      // The mask comes after the bias: whatever the bias of an invisible key is, the key stays invisible.
      if (masked) s = select(rows.see(part.first_key + key), s, broadcast(-infinity));
      if constexpr (config::bits) {
        const Words word = load<Words>(part.bits[key / 32] + lane) >> static_cast<u32>(key % 32);
        s = select(-bits_as<Ints>(word & 1u), s, broadcast(-infinity));
      }
      store(score, s);
      largest = max(largest, s);
    };
    for (i64 key = begin; key < end; key += 2) {
      const float* const score = part.scores + key * tile + lane;
      Floats low = load<Floats>(score) * scale, high = load<Floats>(score + tile) * scale;
      if constexpr (row_factors) {
        low *= part.factors->k[key];
        high *= part.factors->k[key + 1];
      }
      soften(head.arguments, low, high);
      finish(key, low);
      finish(key + 1, high);
    }
    store(maximum + lane, largest);
  }
}

}  // namespace regard
