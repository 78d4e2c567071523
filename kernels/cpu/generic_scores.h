// Scores of the generic kernels, [row][key] with lanes = keys: every feature that changes a score, selected
// at run time. This is the only place where scores are changed.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/function_rows.h"
#include "kernels/cpu/generic_convert.h"
#include "kernels/cpu/key_ranges.h"
#include "kernels/philox.h"
#include "kernels/row_factors.h"

namespace regard::generic {

constexpr i64 tile_rows = GenericLayout::tile_rows, tile_keys = GenericLayout::tile_keys;
static_assert(tile_keys == philox::group && tile_keys % 32 == 0);

inline float sum_of(Floats values) {
  float sum = 0;
  for (int i = 0; i < lanes; ++i) sum += values[i];
  return sum;
}
inline float largest_of(Floats values) {
  float largest = values[0];
  for (int i = 1; i < lanes; ++i) largest = larger(largest, values[i]);
  return largest;
}
inline float exp2_of(float x) {
  return exp2(broadcast(x))[0];
}

inline bool drops(const Arguments& a) {
  return a.dropout_keep < 255;
}

/// A tile of query rows of one head.
struct QueryRows {
  const Arguments& a;
  Sequence sequence;
  i64 head, kv_head, first, count;
  TileKeyRanges<static_cast<int>(tile_rows)> visible;
  philox::Random random;  // the random generator of the head, if there is dropout

  QueryRows(const Arguments& arguments, i64 batch, i64 query_head, i64 first_row)
      : a(arguments),
        sequence(sequence_of(arguments, batch)),
        head(query_head),
        kv_head(query_head / (arguments.hq / arguments.hk)),
        first(first_row),
        count(smaller(tile_rows, sequence.sq - first_row)) {
    if (count > 0) visible.find(a, sequence, first, count);
    if (drops(a)) random = philox::Random(a.seed, a.offset, batch, head, philox::WideMultiply{});
  }
  /// The tile with this number, tiles of a head together.
  static QueryRows of_block(const Arguments& a, i64 block) {
    const i64 tiles = ceil_divide(a.sq, tile_rows), head = block / tiles;
    return QueryRows(a, head / a.hq, head % a.hq, block % tiles * tile_rows);
  }

  i64 batch() const { return sequence.batch; }
  /// Rows of the matrix products, padded.
  i64 computed() const { return round_up(count, 4); }

  /// The factor of K or V, unless each row has its own.
  float descale_of_keys(const Rows& factors) const {
    return has_row_factors(a) ? 1.0f : factor_of(factors, batch(), kv_head);
  }
  float score_scale() const {
    return a.scale * factor_of(a.descale_q, batch(), kv_head) * descale_of_keys(a.descale_k);
  }

  TileSource q() const { return {a.q, a.dtype, batch(), head, sequence.first_q + first, count, a.d}; }
  TileSource grad_o() const {
    return {a.grad_o, a.out, batch(), head, sequence.first_q + first, count, a.dv};
  }

  const u32* bits(i64 i) const { return row_of<const u32>(a.bits, batch(), head, first + i); }

  /// Whether positions and bits leave a visible key in the step, whose first key is a multiple of tile_keys.
  bool sees_any(i64 first_key) const {
    const i64 end = smaller(first_key + tile_keys, sequence.sk);
    if (!visible.sees_any(first_key, end)) return false;
    if (!a.bits.data) return true;
    u32 found = 0;
    for (i64 i = 0; i < count; ++i)
      for (i64 key = first_key; key < end; key += 32) found |= bits(i)[key / 32];
    return found != 0;
  }
};

/// The keys [first, first + tile_keys) of a K/V head.
inline TileSource keys_of(const Arguments& a, const Rows& rows, const Sequence& sequence, i64 kv_head,
                          i64 first, i64 columns) {
  const i64 count = smaller(tile_keys, sequence.sk - first);
  return {rows, a.dtype, sequence.batch, kv_head, sequence.first_k + first, count, columns};
}

/// Which of `lanes` keys row i of the tile sees.
inline Ints visible_lanes(const QueryRows& rows, i64 i, i64 key) {
  const Ints j = lane_numbers() + static_cast<i32>(key);
  const auto& v = rows.visible;
  Ints seen =
      ((j >= v.window_begin[i]) & (j < v.window_end[i])) | ((j >= v.sinks_begin[i]) & (j < v.sinks_end[i]));
  if (rows.a.bits.data) {
    if (key >= rows.sequence.sk) return Ints{};
    const u32 word = rows.bits(i)[key / 32];
    Ints bit;
    for (int lane = 0; lane < lanes; ++lane) bit[lane] = -static_cast<i32>((word >> (key % 32 + lane)) & 1u);
    seen &= bit;
  }
  return seen;
}

/// Row i of the tile: products of Q and K become scores, -infinity where the key is not visible. `slopes`
/// gets the derivative of the soft cap or of the function unless it is null; `bias_row` is scratch for one
/// row of keys.
REGARD_OPTIMIZE inline void modify_row(const QueryRows& rows, i64 i, i64 first_key, float* scores,
                                       float* slopes, float* bias_row, FunctionRows& function) {
  const Arguments& a = rows.a;
  const i64 row = rows.first + i, keys = smaller(tile_keys, rows.sequence.sk - first_key);
  const float scale = rows.score_scale();
  const bool masked = a.bits.data || !rows.visible.sees_all(first_key, first_key + tile_keys);
  if (a.bias.data) {
    const u8* from = address(a.bias, a.bias_dtype, rows.batch(), rows.head, row);
    load_row(bias_row, from + first_key * bytes_of_dtype(a.bias_dtype), a.bias_dtype, keys);
    for (i64 key = keys; key < tile_keys; ++key) bias_row[key] = 0;
  }
  const float slope = a.alibi ? a.alibi[rows.batch() * a.alibi_batch + rows.head] : 0;
  const i64 diagonal = row + rows.sequence.bottom_right();
  for (i64 key = 0; key < tile_keys; key += lanes) {
    Floats s = load<Floats>(scores + key) * scale;
    if (a.softcap > 0) {
      const Floats x = s * (1 / a.softcap);
      s = tanh(x) * a.softcap;
      if (slopes) store(slopes + key, tanh_slope(x));
    }
    if (a.bias.data) s += load<Floats>(bias_row + key);
    if (a.alibi) {
      const Ints offset = lane_numbers() + static_cast<i32>(first_key + key - diagonal);
      const Floats distance = __builtin_convertvector(offset, Floats);
      s -= slope * max(distance, -distance);
    }
    if (masked && !function.present())
      s = select(visible_lanes(rows, i, first_key + key), s, broadcast(-infinity));
    store(scores + key, s);
  }
  if (!function.present()) return;
  function.apply({rows.batch(), rows.head, rows.kv_head, row, first_key, rows.sequence}, scores, slopes);
  for (i64 key = 0; masked && key < tile_keys; key += lanes) {
    const Ints seen = visible_lanes(rows, i, first_key + key);
    store(scores + key, select(seen, load<Floats>(scores + key), broadcast(-infinity)));
  }
}

/// Dropout of row i: 1 where the weight of a key of the step is kept, else 0.
inline void draw_dropout(const QueryRows& rows, i64 i, i64 first_key, float* keep) {
  const Arguments& a = rows.a;
  for (int call = 0; call < philox::calls_per_group; ++call) {
    u32 words[4];
    rows.random.draw(words, static_cast<u32>(rows.first + i), first_key + 2 * call, philox::WideMultiply{});
    for (i64 group = 0; group < 16; ++group) {
      const i64 column = group / 2 * 8 + 2 * call + group % 2;
      const int byte = philox::byte_of(column);
      keep[column] =
          ((words[byte / 4] >> (8 * (byte % 4))) & 255u) <= static_cast<u32>(a.dropout_keep) ? 1.0f : 0.0f;
    }
  }
}

}  // namespace regard::generic
