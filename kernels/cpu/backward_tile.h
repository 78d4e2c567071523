// From the scores of a block of keys x queries, [key][query] with one lane per query, to probabilities, and
// from the gradients of probabilities to those of scores. All features that change a score are implemented
// here; the code that computes the products decides where the numbers are kept meanwhile.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/backward_schedule.h"
#include "kernels/cpu/backward_scratch.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/prefetch.h"
#include "kernels/cpu/split_bf16.h"
#include "kernels/cpu/transpose.h"

namespace regard {

constexpr i64 block_q = config::block_q, block_k = config::block_k;
constexpr i64 d = config::d, dv = config::dv;
constexpr i64 columns_d = padded_columns(d), columns_dv = padded_columns(dv);
constexpr i64 panel = tile_vectors * lanes;      // columns of a B operand that are multiplied together
constexpr i64 operand_panel = amx ? 16 : panel;  // and columns that are stored together

constexpr BackwardScratch scratch_layout({.d = config::d,
                                          .dv = config::dv,
                                          .depth_d = depth(config::d),
                                          .depth_dv = depth(config::dv),
                                          .block_q = block_q,
                                          .block_k = block_k,
                                          .depth_q = depth(block_q),
                                          .depth_k = depth(block_k),
                                          .vnni = vnni,
                                          .amx = amx,
                                          .pieces = pieces,
                                          .bits = config::bits,
                                          .bias = elementwise_bias,
                                          .dbias = config::dbias,
                                          .softcap = config::softcap,
                                          .dropout = config::dropout});

constexpr i64 unit = 2 * lanes;  // queries that are in or out of a tile together
constexpr i64 units = block_q / unit;
constexpr TileRules rules = backward_rules(machine);
static_assert(rules.block_q.takes(block_q) && panel % unit == 0 && rules.block_k.takes(block_k));

/// The position of the tile: `keys` of its rows are real, and `queries` of its columns.
struct TilePosition {
  const Head& head;
  i64 first_key, keys, first_query, queries;

  bool full() const { return queries == block_q; }
};

/// bias[key][query] from rows [query][key] in memory.
template <DType dtype>
void load_bias(const Arguments& a, const TilePosition& position, float* bias) {
  for (i64 query = 0; query < block_q; query += lanes) {
    const u8* from[lanes];  // rows past the last one repeat it
    for (i64 i = 0; i < lanes; ++i) {
      const i64 row = position.first_query + smaller(query + i, position.queries - 1);
      from[i] = position.head.address<dtype>(a.bias, position.head.head, row) +
                position.first_key * bytes_of<dtype>;
    }
    load_transposed<dtype, block_k, block_q>(bias + query, 0, position.keys, position.keys, from);
  }
}
inline void load_bias(const Arguments& a, const TilePosition& position, float* bias) {
  with_bias_type(a, [&]<DType dtype>() { load_bias<dtype>(a, position, bias); });
}

/// bits[word][query]: 32 keys a word, from the word that holds the tile's first key. False when none is set.
inline bool load_bits(const Arguments& a, const TilePosition& position, u32* bits) {
  const i64 first = position.first_key / 32,
            words = (position.first_key + position.keys - 1) / 32 + 1 - first;
  u32 found = 0;
  for (i64 query = 0; query < block_q; ++query) {
    const i64 row = position.first_query + smaller(query, position.queries - 1);
    const u32* from = row_of<const u32>(a.bits, position.head.batch, position.head.head, row) + first;
    for (i64 word = 0; word < words; ++word) found |= bits[word * block_q + query] = from[word];
  }
  return found != 0;
}

/// bytes[pair][query]: the random bytes of the tile's keys, two per word (draw_bytes), starting with the
/// group that contains the first key.
inline void load_random_bytes(const TilePosition& position, u32* bytes) {
  const i64 first = position.first_key / philox::group;
  const i64 last = (position.first_key + position.keys - 1) / philox::group;
  const philox::Random random = random_of(position.head);
  for (i64 group = first; group <= last; ++group, bytes += column_pairs * block_q)
    for (i64 query = 0; query < block_q; query += lanes)
      draw_bytes(bytes + query, block_q, random, position.first_query + query, group);
}

/// Where queries see keys: for each unit of queries the keys of the block, with ends that are multiples of
/// key_step.
struct VisibleUnits {
  TileKeyRanges<unit> rows[units];
  Range keys[units];

  void find(const Arguments& a, const Sequence& sequence, i64 first_query, i64 queries) {
    for (i64 u = 0; u < units; ++u)
      rows[u].find(a, sequence, first_query + smaller(u * unit, queries - 1),
                   larger<i64>(1, smaller(unit, queries - u * unit)));
  }

  /// Whether any query sees any of the keys.
  REGARD_NOINLINE bool find_keys(i64 first_key, i64 count, i64 queries) {
    bool any = false;
    for (i64 u = 0; u < units; ++u) {
      keys[u] = {0, 0};
      Range seen = rows[u].seen(first_key, first_key + count);
      const bool sees = u * unit < queries && !seen.empty();
      any |= sees;
      if (!sees && !config::dbias) continue;
      if (config::dbias) seen = {first_key, first_key + count};  // a bias's gradient needs all keys
      keys[u] = {(seen.begin - first_key) / key_step * key_step, round_up(seen.end - first_key, key_step)};
    }
    return any;
  }

  bool sees(i64 u, i64 key) const { return keys[u].contains(key); }

  /// Whether all units see the same keys.
  bool all_equal() const {
    bool all = true;
    for (i64 u = 1; u < units; ++u) all &= keys[u].begin == keys[0].begin && keys[u].end == keys[0].end;
    return all;
  }

  /// The first to the last unit that sees the key.
  Range units_of(i64 key) const {
    Range seeing{0, units};
    while (!seeing.empty() && !sees(seeing.begin, key)) ++seeing.begin;
    while (!seeing.empty() && !sees(seeing.end - 1, key)) --seeing.end;
    return seeing;
  }

  /// From the first to the last key that one of these units sees.
  Range keys_of(Range these) const {
    Range all{0, 0};
    for (i64 u = these.begin; u < these.end; ++u) all.join(keys[u]);
    return all;
  }
};

/// One block of queries against one block of keys; all arrays are in scratch.
struct BackwardTile {
  const CpuBackwardArguments& a;
  const TilePosition& position;
  const VisibleUnits& visible;
  float* const scratch;
  Prefetcher& prefetcher;  // prefetches during the products
  float scale_log2 = 0;    // converts products to base-2 logarithms
  float unit_of_cap = 0;   // converts products to units of the soft cap
  bool moderate = false;   // no LSE is so large that its rounding shows in a bf16 probability

  /// Loads the results of the forward pass, per query lane.
  REGARD_NOINLINE void load_rows() {
    float largest = 0;
    for (i64 i = 0; i < block_q; ++i) {
      const bool real = i < position.queries;
      const i64 row = position.first_query + (real ? i : 0);
      const float value = real ? *position.head.lse(row) : -infinity;
      // Rows that see nothing, and lanes past the last row: all their probabilities become exactly 0.
      part(scratch_layout.lse)[i] = value == -infinity ? infinity : value;
      if (value != -infinity) largest = larger(largest, __builtin_fabsf(value));
      part(scratch_layout.delta)[i] = real ? a.delta[position.head.row_number(row)] : 0.0f;
    }
    for (i64 i = 0; i < block_q; i += lanes)
      store(part(scratch_layout.lse_log2) + i, load<Floats>(part(scratch_layout.lse) + i) * log2_of_e);
    moderate = largest < 256;
    scale_log2 = a.scale * log2_of_e;
    if (config::softcap) unit_of_cap = a.scale / a.softcap;
  }

  float* part(i64 offset) const { return scratch + offset; }

  /// Whether scores are more than the product.
  static constexpr bool modified = config::softcap || elementwise_bias || alibi;
  /// Whether probabilities must never come from constants rounded in units of log 2. (The score of a key
  /// hidden by bits may be beyond the range of exp2.)
  static constexpr bool always_exact = modified || config::bits || config::dtype != DType::bf16;
  /// Whether this is too much code to be unrolled over a whole tile.
  static constexpr bool much_code = modified || config::bits || config::dropout;
  /// Whether the sums of dO V^T start at -D.
  static constexpr bool starts_at_delta = !config::dropout && !amx;
  /// Whether P as an operand is the only form that is needed.
  static constexpr bool weights_are_p = !vnni && !config::dropout;

  /// Whether the queries of these units see all key_step keys by position, and nothing else needs the
  /// guarded path.
  bool is_plain(i64 first_unit, i64 end_unit, i64 k) const {
    bool plain = always_exact || moderate;
    for (i64 u = first_unit; u < end_unit; ++u)
      plain &= visible.rows[u].sees_all(position.first_key + k, position.first_key + k + key_step);
    return plain;
  }

  /// One key, some vectors of queries: value(v) of Q K^T becomes `weight`, exp(S - LSE), and P, the operand.
  /// `slope` gets the derivative of the soft cap.
  template <int vectors, bool guarded, class Value>
  REGARD_INLINE void make_weights(i64 k, i64 query, Value value, float* weight, float* slope) const {
    REGARD_UNROLL
    for (int v = 0; v < vectors; v += 2) {
      Floats both[2] = {value(v), value(v + 1)};
      soften(both[0], both[1], slope + v * lanes);
      REGARD_UNROLL
      for (int i = 0; i < 2; ++i) {
        const i64 at = (v + i) * lanes;
        both[i] = probability<guarded>(k, query + at, both[i]);
        if constexpr (config::dropout) {
          const Ints kept = is_kept(k, query + at);
          store(weight + at, marked(both[i], kept));
          both[i] = select(kept, both[i] * a.dropout_scale, Floats{});
        } else if constexpr (!weights_are_p) {
          store(weight + at, both[i]);
        }
      }
      store_operand(scratch_layout.p, k * block_q + query + v * lanes, both);
    }
  }

  /// Keys whose dS is stored together.
  static constexpr int gradient_keys = quads ? 4 : 2;

  /// gradient_keys keys, some vectors of queries: value(key, v) of dO V^T becomes dS, as operands. Rows of
  /// `weight` and `slope` are `row` apart.
  template <int vectors, class Value>
  REGARD_INLINE void make_gradients(i64 k, i64 query, Value value, const float* weight, const float* slope,
                                    i64 row) const {
    REGARD_UNROLL
    for (int v = 0; v < vectors; v += 2) {
      Floats grad[gradient_keys][2];
      REGARD_UNROLL
      for (int j = 0; j < gradient_keys; ++j) {
        REGARD_UNROLL
        for (int i = 0; i < 2; ++i) {
          const i64 at = (v + i) * lanes;
          Floats x = value(j, v + i);
          Floats p = load<Floats>(weights_are_p ? part(scratch_layout.p) + (k + j) * block_q + query + at
                                                : weight + j * row + at);
          if constexpr (config::dropout) {
            x = select(is_marked_kept(p), x * a.dropout_scale, Floats{});
            p = bits_as<Floats>(bits_as<Words>(p) & ~sign);
          }
          if constexpr (!starts_at_delta) x -= load<Floats>(part(scratch_layout.delta) + query + at);
          x *= p;
          // A bias is added after the soft cap.
          if constexpr (config::dbias && scratch_layout.grad_bias != scratch_layout.grad_s)
            store(part(scratch_layout.grad_bias) + (k + j) * block_q + query + at, x);
          if constexpr (config::softcap) x *= load<Floats>(slope + j * row + at);
          grad[j][i] = x;
        }
        store_operand(scratch_layout.grad_s, (k + j) * block_q + query + v * lanes, grad[j]);
      }
      if constexpr (vnni) {
        REGARD_UNROLL
        for (int i = 0; i < 2; ++i) {
          if constexpr (quads)
            store_quads(grad_s_vnni(k, query + (v + i) * lanes), grad[0][i], grad[1][i],
                        grad[gradient_keys - 2][i], grad[gradient_keys - 1][i]);
          else
            store_vnni<scratch_layout.low>(grad_s_vnni(k, query + (v + i) * lanes), grad[0][i], grad[1][i]);
        }
      }
    }
  }

  /// Nothing is visible: P and dS are 0.
  void clear_unit(i64 k, i64 query) const {
    const Floats zeros[2] = {};
    for (i64 r = k; r < k + key_step; ++r) {
      store_operand(scratch_layout.p, r * block_q + query, zeros);
      store_operand(scratch_layout.grad_s, r * block_q + query, zeros);
      if (vnni && r % gradient_keys == 0)
        for (i64 v = 0; v < unit; v += quads ? lanes / 2 : lanes) store(grad_s_vnni(r, query + v), zeros[0]);
    }
  }

  /// dS of the keys from k on together, for a vector of queries: in rows of all queries, or in
  /// panels.
  float* grad_s_vnni(i64 k, i64 query) const {
    static_assert(!amx || lanes == 16);
    return part(scratch_layout.grad_s_vnni) +
           (amx ? query * depth(block_k) + k / 2 * lanes : k / 2 * block_q + place(query));
  }
  /// dS with queries along the rows, and in fp32.
  const float* grad_s_vnni() const { return part(vnni ? scratch_layout.grad_s_vnni : scratch_layout.grad_s); }
  const float* grad_bias() const { return part(scratch_layout.grad_bias); }

 private:
  /// Probabilities are rounded to bf16 if inputs are bf16, except for the gradient of a bias, which may be
  /// fp32.
  static constexpr Precision precision =
      config::dtype == DType::bf16 && !config::dbias ? Precision::bf16 : Precision::fp32;

  /// tanh and its slope, for any values in the other lanes.
  static REGARD_INLINE void soften_by_lane(Floats& x, float* slope) {
    const Floats y = tanh_by_lane(x);
    store(slope, select(is_near_0(x), 1.0f - y * y, tanh_slope(x)));
    x = y;
  }

  /// The soft cap, if there is one, of products for two vectors of queries; `slope` gets its derivative.
  REGARD_INLINE void soften(Floats& s, Floats& t, [[maybe_unused]] float* slope) const {
    if constexpr (config::softcap) {
      s *= unit_of_cap;
      t *= unit_of_cap;
      if (near_0(s, t)) {  // nearly always: scores far below their cap
        s = tanh_near_0(s);
        t = tanh_near_0(t);
        store(slope, 1.0f - s * s);
        store(slope + lanes, 1.0f - t * t);
      } else {
        soften_by_lane(s, slope);
        soften_by_lane(t, slope + lanes);
      }
      s *= a.softcap;
      t *= a.softcap;
    }
  }

  /// guarded: some query may not see the key by position, or LSE may be large.
  template <bool guarded>
  REGARD_INLINE Floats probability(i64 k, i64 query, Floats score) const {
    Floats weight;
    if constexpr (guarded || always_exact)
      weight = exact_probability(k, query, score);
    else
      weight = exp2<precision>(score * scale_log2 - load<Floats>(part(scratch_layout.lse_log2) + query));
    if constexpr (!guarded && !config::bits) return weight;
    const i64 key = position.first_key + k;
    Ints seen = broadcast(-1);
    if constexpr (guarded) seen = visible.rows[query / unit].visible(static_cast<int>(query % unit), key);
    if constexpr (config::bits) {
      const i64 word = key / 32 - position.first_key / 32;
      const Words bits = load<Words>(part(scratch_layout.bits) + word * block_q + query);
      seen &= -bits_as<Ints>((bits >> static_cast<u32>(key % 32)) & 1u);
    }
    return select(seen, weight, Floats{});
  }

  REGARD_INLINE Floats exact_probability(i64 k, i64 query, Floats score) const {
    [[maybe_unused]] const i64 key = position.first_key + k;
    if constexpr (!config::softcap) score *= a.scale;
    if constexpr (elementwise_bias) score += load<Floats>(part(scratch_layout.bias) + k * block_q + query);
    if constexpr (alibi) {
      const i64 diagonal = position.first_query + position.head.sequence.bottom_right();
      const Ints offset = lane_numbers() + static_cast<i32>(diagonal + query - key);
      score -= __builtin_convertvector(offset < 0 ? -offset : offset, Floats) * position.head.alibi_slope();
    }
    // LSE was computed from rounded scores, so its difference from a large score is correct only if this is
    // rounded too. However it was rounded, a probability is at most 1.
    const Floats exponent = min(Floats{}, rounded(score) - load<Floats>(part(scratch_layout.lse) + query));
    return exp2<precision>(exponent * log2_of_e);
  }

  REGARD_INLINE Ints is_kept(i64 k, i64 query) const {
    const i64 first_group = position.first_key / philox::group * philox::group;
    const i64 pair = (position.first_key + k - first_group) / 2;
    const KeptPair kept = kept_pair(
        kept_limit(a),
        load<Words>(reinterpret_cast<const u32*>(part(scratch_layout.dropout)) + pair * block_q + query));
    return k % 2 == 0 ? kept.first : kept.second;
  }

  /// Weights are never negative: dropped ones are marked by their sign.
  static REGARD_INLINE Floats marked(Floats weight, Ints kept) {
    return bits_as<Floats>(bits_as<Words>(weight) | (bits_as<Words>(~kept) & sign));
  }
  static REGARD_INLINE Ints is_marked_kept(Floats weight) { return bits_as<Ints>(weight) >= 0; }
  static constexpr u32 sign = 0x80000000u;

  /// Two neighbouring vectors of a row of an A operand.
  REGARD_INLINE void store_operand(i64 operand, i64 at, const Floats (&values)[2]) const {
    float* const to = part(operand);
    if constexpr (quads) {
      Numbers16 numbers;
      store_bfloats(reinterpret_cast<u16*>(&numbers), values[0], values[1]);
      const i64 row = at / block_q, column = at % block_q;
      u16* const quad = reinterpret_cast<u16*>(to) + row / 2 * 2 * block_q + row % 2 * 4 + 2 * column;
      store(quad, bits_as<Doublewords>(numbers)[0]);
      store(quad + 8, bits_as<Doublewords>(numbers)[1]);
    } else if constexpr (vnni) {
      store_bfloats(reinterpret_cast<u16*>(to) + at, values[0], values[1]);
      if constexpr (pieces == 2)
        store_bfloats(reinterpret_cast<u16*>(to + scratch_layout.low) + at, rest_of_bfloat(values[0]),
                      rest_of_bfloat(values[1]));
    } else {
      store(to + at, values[0]);
      store(to + at + lanes, values[1]);
    }
  }
};

}  // namespace regard
