// One tile of the backward pass, keys x queries with one lane per query: scores become probabilities, and the
// gradients of probabilities become those of scores. All features that change a score live here.
#pragma once

#include "kernels/cpu/backward_scratch.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/transpose.h"

namespace regard {

constexpr i64 block_q = key::block_q, block_k = key::block_k;
constexpr i64 d = key::d, dv = key::dv;
constexpr i64 columns_d = padded_columns(d), columns_dv = padded_columns(dv);
constexpr i64 panel = tile_vectors * lanes;  // columns of a B operand that lie together
constexpr bool has_alibi = key::bias == Bias::alibi || key::bias == Bias::alibi_batch;
constexpr bool has_bias = key::bias != Bias::none && !has_alibi;
constexpr DType bias_dtype = key::dtype;

constexpr BackwardScratch scratch_layout{
    BackwardShape{key::d, key::dv, depth(key::d), depth(key::dv), block_q, block_k, depth(block_q),
                  depth(block_k), pairs, amx, key::bits, has_bias, key::softcap, key::dropout}};

/// Where the tile lies: `keys` of its rows are real, `queries` of its columns.
struct TilePlace {
  const Head& head;
  i64 first_key, keys, first_query, queries;
};

/// Per query lane: what the forward pass left behind. Rows that see nothing, and lanes behind the last row,
/// get LSE = +infinity: all their probabilities become exactly 0.
inline void load_row_sums(const Arguments& a, const TilePlace& place, float* lse, float* delta) {
  const Head& head = place.head;
  for (i64 i = 0; i < block_q; ++i) {
    const bool real = i < place.queries;
    const i64 row = place.first_query + (real ? i : 0);
    const float value = real ? *head.lse(row) : -infinity;
    lse[i] = value == -infinity ? infinity : value;
    delta[i] = real ? a.delta[head.row_number(row)] : 0.0f;
  }
}

/// bias[key][query] from rows [query][key] in memory.
inline void load_bias(const Arguments& a, const TilePlace& place, float* bias) {
  constexpr i64 bytes = bytes_of<bias_dtype>;
  for (i64 query = 0; query < block_q; query += lanes) {
    for (i64 first = 0; first < place.keys; first += lanes) {
      Floats square[lanes];
      const i64 count = smaller<i64>(lanes, place.keys - first);
      for (int i = 0; i < lanes; ++i) {
        square[i] = Floats{};
        if (query + i >= place.queries) continue;
        const u8* row =
            place.head.address<bias_dtype>(a.bias, place.head.head, place.first_query + query + i) +
            (place.first_key + first) * bytes;
        square[i] = count == lanes ? load_floats<bias_dtype>(row) : load_floats<bias_dtype>(row, count);
      }
      transpose(square);
      for (i64 i = 0; i < lanes; ++i)
        if (first + i < block_k) store(bias + (first + i) * block_q + query, square[i]);
    }
  }
}

/// bits[word][query]: 32 keys a word, from the word that holds the tile's first key. False when none is set.
inline bool load_bits(const Arguments& a, const TilePlace& place, u32* bits) {
  const i64 first = place.first_key / 32, words = (place.first_key + place.keys - 1) / 32 + 1 - first;
  u32 found = 0;
  for (i64 query = 0; query < block_q; ++query) {
    const i64 row = place.first_query + smaller(query, place.queries - 1);
    const u32* from = row_of<const u32>(a.bits, place.head.batch, place.head.head, row) + first;
    for (i64 word = 0; word < words; ++word) found |= bits[word * block_q + query] = from[word];
  }
  return found != 0;
}

/// bytes[group][call][word][query]: the random bytes of the tile's keys, from the group of 64 keys that holds
/// the first.
inline void load_random_bytes(const Arguments& a, const TilePlace& place, u32* bytes) {
  const i64 first = place.first_key / philox::group;
  const i64 last = (place.first_key + place.keys - 1) / philox::group;
  const u32 head = philox::counter_head(a.offset, place.head.batch, a.hq, place.head.head);
  for (i64 group = first; group <= last; ++group) {
    for (int call = 0; call < philox::calls_per_group; ++call, bytes += 4 * block_q) {
      const u32 column = philox::counter_column(group * philox::group + 2 * call);
      for (i64 query = 0; query < block_q; query += lanes) {
        const Ints rows = broadcast(static_cast<i32>(place.first_query + query)) + lane_numbers();
        Words counter[4] = {broadcast(static_cast<u32>(a.offset)), broadcast(head), bits_as<Words>(rows),
                            broadcast(column)};
        philox::random_bytes(counter, a.seed, [](Words x, u32 y) { return multiply(x, y); });
        for (int word = 0; word < 4; ++word) store(bytes + word * block_q + query, counter[word]);
      }
    }
  }
}

/// -1 where the weights of `key` are kept.
REGARD_INLINE Ints kept(const Arguments& a, const u32* bytes, i64 first_key, i64 key, i64 query) {
  const i64 group = key / philox::group - first_key / philox::group;
  const int byte = philox::byte_of(key);
  const i64 word = (group * philox::calls_per_group + philox::call_of(key)) * 4 + byte / 4;
  const Words random = (load<Words>(bytes + word * block_q + query) >> (8 * (byte % 4))) & 0xffu;
  return bits_as<Ints>(random) <= a.dropout_keep;
}

/// The arrays of one tile, in scratch.
struct BackwardTile {
  float *lse, *delta, *p, *grad_p, *operand, *operand_pairs, *slope, *bias;
  u32 *bits, *random;

  explicit BackwardTile(float* scratch)
      : lse(scratch + scratch_layout.lse),
        delta(scratch + scratch_layout.delta),
        p(scratch + scratch_layout.p),
        grad_p(scratch + scratch_layout.grad_p),
        operand(pairs || key::dropout ? scratch + scratch_layout.operand : p),
        operand_pairs(scratch + scratch_layout.operand_pairs),
        slope(scratch + scratch_layout.slope),
        bias(scratch + scratch_layout.bias),
        bits(reinterpret_cast<u32*>(scratch + scratch_layout.bits)),
        random(reinterpret_cast<u32*>(scratch + scratch_layout.dropout)) {}

  /// p holds Q K^T and becomes exp(S - LSE); `operand` becomes what multiplies dO: p after dropout, as an A
  /// operand. Keys [from, to) of the tile.
  template <bool masked>
  void make_probabilities(const Arguments& a, const TilePlace& place, const TileRows<block_q>& rows, i64 from,
                          i64 to) {
    for (i64 k = from; k < to; ++k)
      for_vectors([&](i64 query) { make_probability<masked>(a, place, rows, k, query); });
  }

  /// grad_p holds dO V^T and becomes dS, the gradient of what went into the softmax; the operands get the
  /// gradient of Q K^T but for its scale. `from` and `to` are even.
  void make_score_gradients(const Arguments& a, const TilePlace& place, i64 from, i64 to) {
    for (i64 k = from; k < to; k += 2)
      for_vectors([&](i64 query) {
        const Floats low = make_score_gradient(a, place, k, query);
        const Floats high = make_score_gradient(a, place, k + 1, query);
        if constexpr (pairs) store(operand_pairs + k / 2 * block_q + query, pair_of(low, high));
      });
  }

  /// dS as A operands: rows of keys along the queries, rows of queries along the keys.
  const float* grads_by_key() const { return pairs ? operand : grad_p; }
  const float* grads_by_query() const { return pairs ? operand_pairs : grad_p; }

 private:
  /// Four vectors in flight hide the latency of exp2; more would only be more code.
  template <class Function>
  REGARD_INLINE static void for_vectors(Function function) {
    for (i64 query = 0; query < block_q; query += 4 * lanes) {
      REGARD_UNROLL
      for (i64 i = 0; i < 4; ++i) function(query + i * lanes);
    }
  }

  template <bool masked>
  REGARD_INLINE void make_probability(const Arguments& a, const TilePlace& place,
                                      const TileRows<block_q>& rows, i64 k, i64 query) {
    constexpr Precision precision = key::dtype == DType::bf16 ? Precision::bf16 : Precision::fp32;
    const i64 at = k * block_q + query, key = place.first_key + k;
    Floats score = load<Floats>(p + at);
    if constexpr (key::softcap) {
      const Floats capped = tanh(score * (a.scale / a.softcap));
      store(slope + at, 1.0f - capped * capped);
      score = capped * a.softcap;
    } else {
      score *= a.scale;
    }
    if constexpr (has_bias) score += load<Floats>(bias + at);
    if constexpr (has_alibi) {
      const i64 diagonal = place.first_query + place.head.sequence.sk - place.head.sequence.sq;
      const Ints offset = lane_numbers() + static_cast<i32>(diagonal + query - key);
      score -= __builtin_convertvector(offset < 0 ? -offset : offset, Floats) * place.head.alibi_slope();
    }
    // LSE stands for sums of rounded scores, so that the difference of large ones is right only when these
    // are rounded too. Whatever it was rounded to, a probability is at most 1.
    const Floats exponent = min(Floats{}, rounded(score) - load<Floats>(lse + query));
    Floats weight = exp2<precision>(exponent * log2_of_e);
    if constexpr (masked) {
      Ints visible = rows.visible(static_cast<int>(query), key);
      if constexpr (key::bits) {
        const Words word = load<Words>(bits + (key / 32 - place.first_key / 32) * block_q + query);
        visible &= -bits_as<Ints>((word >> static_cast<u32>(key % 32)) & 1u);
      }
      weight = select(visible, weight, Floats{});
    }
    store(p + at, weight);
    if constexpr (key::dropout)
      weight = select(kept(a, random, place.first_key, key, query), weight * a.dropout_scale, Floats{});
    store_operand(at, weight);
  }

  REGARD_INLINE Floats make_score_gradient(const Arguments& a, const TilePlace& place, i64 k, i64 query) {
    const i64 at = k * block_q + query;
    Floats grad = load<Floats>(grad_p + at);
    if constexpr (key::dropout)
      grad = select(kept(a, random, place.first_key, place.first_key + k, query), grad * a.dropout_scale,
                    Floats{});
    grad = load<Floats>(p + at) * (grad - load<Floats>(delta + query));
    if constexpr (key::softcap) grad *= load<Floats>(slope + at);
    if constexpr (!pairs || key::dbias) store(grad_p + at, grad);
    if constexpr (pairs) store_operand(at, grad);
    return grad;
  }

  REGARD_INLINE void store_operand(i64 at, Floats values) {
    if constexpr (pairs)
      store(reinterpret_cast<u16*>(operand) + at, bfloats(values));
    else if constexpr (key::dropout)
      store(operand + at, values);
  }
};

}  // namespace regard
