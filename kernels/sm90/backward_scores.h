// From scores of a tile to P and dS. A consumer has them transposed, with its keys along the rows of
// fragments: in every group of 8 queries a thread has two neighbouring queries for each of two keys, 8
// apart.
#pragma once

#include "kernels/bias.h"
#include "kernels/dropout.h"
#include "kernels/sm90/backward_work.h"
#include "kernels/sm90/ptx/number.h"
#include "kernels/sm90/ptx/shared_floats.h"
#include "kernels/sm90/soft_cap.h"

namespace regard {

using BackwardScores = float[block_q / 2];   // of 64 keys
using LeftFragments = u32[block_q / 16][4];  // as left operands in steps of 16 queries

/// Which queries see the thread's two keys, `key` and `key` + 8, and which see all keys of its consumer.
struct SeenQueries {
  Range32 of_keys[2], of_all;

  REGARD_DEVICE SeenQueries(const Window& window, i32 first_key, i32 key)
      : of_keys{of_key(window, key), of_key(window, key + 8)} {
    const i32 last_key = first_key + group_rows - 1;
    const Range all{window.rows_of({last_key, last_key + 1}).begin,
                    last_key < window.keys ? window.rows_of({first_key, first_key + 1}).end : 0};
    of_all = within(all, static_cast<i32>(window.rows));
  }

  /// Whether all queries of a tile see all keys of the consumer.
  REGARD_DEVICE bool in_all(i32 first_query) const {
    return first_query >= of_all.begin && first_query <= of_all.end - block_q;
  }

 private:
  REGARD_DEVICE static Range32 of_key(const Window& window, i32 key) {
    return key < window.keys ? rows_that_see(window, key, key + 1) : Range32{0, 0};
  }
};

/// Which of a thread's scores are visible: one bit each, in the order of their registers or, if a warp finds
/// them (backward_masks.h), in the order in which it writes them.
struct Seen {
  static constexpr i32 words = block_q / 64;
  u32 bits[words];

  /// Of the score in register number i.
  REGARD_DEVICE bool at(i32 i) const {
    const i32 bit = config::bits ? i / 16 * 16 + i / 2 % 2 * 8 + i / 4 % 4 * 2 + i % 2 : i;
    return bits[bit / 32] >> bit % 32 & 1;
  }

  /// Whether all scores of the warp are visible.
  REGARD_DEVICE bool all_of_warp() const {
    u32 all = 0xffffffffu;
#pragma unroll
    for (i32 i = 0; i < words; ++i) all &= bits[i];
    return !__any_sync(whole_warp, all != 0xffffffffu);
  }

  /// By position, for the tile at `first_query`.
  REGARD_DEVICE static Seen of_tile(const SeenQueries& queries, i32 first_query) {
    const i32 column = first_query + static_cast<i32>(threadIdx.x % 4) * 2;
    Seen seen{};
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const Range32 range = queries.of_keys[half];
#pragma unroll
      for (i32 i = 0; i < block_q / 8; ++i)
#pragma unroll
        for (i32 j = 0; j < 2; ++j) {
          const i32 query = column + 8 * i + j, at = 4 * i + 2 * half + j;
          if (range.contains(query)) seen.bits[at / 32] |= 1u << at % 32;
        }
    }
    return seen;
  }
};

/// The power of two by which P is scaled (GpuBackwardSchedule::p_exponent).
constexpr float p_exponent = p_exponent_of(config::dtype);

/// Turns products of Q and K into P.
class BackwardScoreScale {
 public:
  float grad_p_factor, dropout_scale;

  REGARD_DEVICE explicit BackwardScoreScale(const BackwardArguments& a)
      : grad_p_factor(a.grad_p_factor),
        dropout_scale(a.dropout_scale),
        soft_cap_(a.scale, config::softcap ? a.softcap : 1.f),
        log2_(a.scale * log2_of_e),
        of_cap_(config::softcap ? 1 / (a.softcap * log2_of_e) : 0) {}

  /// P of a score, times 2^p_exponent, relative to `below`, the row's LSE less the bias, which no score
  /// exceeds except by rounding; with a soft cap, `by_score` is the factor of dS.
  REGARD_DEVICE float p(float product, float below, float& by_score) const {
    if constexpr (!config::softcap) return exp2(at_most(fmaf(product, log2_, -below), p_exponent));
    const float score = soft_cap_(product), tanh = score * of_cap_;
    by_score = fmaf(-tanh, tanh, 1.f);
    return exp2(at_most(score - below, p_exponent));
  }

 private:
  SoftCap soft_cap_;
  float log2_, of_cap_;
};

/// ALiBi of a tile's scores, in powers of two: the slope of its query head times the distance from the
/// diagonal.
class TileSlope {
 public:
  TileSlope() = default;
  /// `key`: the first of the thread's two.
  REGARD_DEVICE TileSlope(const BackwardArguments& a, const Sequence& sequence, i32 head, i32 first_query,
                          i32 key) {
    if constexpr (!alibi) return;
    slope_ = a.alibi[sequence.batch * a.alibi_batch + head] * log2_of_e;
    const i32 from_diagonal =
        first_query + static_cast<i32>(threadIdx.x % 4) * 2 + static_cast<i32>(sequence.bottom_right()) - key;
    of_first_[0] = slope_ * static_cast<float>(from_diagonal);
    of_first_[1] = slope_ * static_cast<float>(from_diagonal - 8);
  }

  /// `lse` less the bias, for a query of the tile and one of the keys.
  REGARD_DEVICE float below(float lse, i32 query, i32 half) const {
    if constexpr (!alibi) return lse;
    return lse + copysignf(fmaf(slope_, static_cast<float>(query), of_first_[half]), slope_);
  }

 private:
  float slope_, of_first_[2];
};

/// Which weights of a tile a consumer keeps. One call of Philox serves 16 of its keys and a query: the
/// threads draw for each other, into shared memory.
class KeptWeights {
 public:
  /// Draws for a tile; by the consumer's 128 threads, which then have to wait for each other. `to`: the
  /// consumer's words, for each call the pairs of queries.
  template <i32 calls, i32 pairs>
  REGARD_DEVICE static void draw(u32 (&to)[calls][pairs], const philox::Random& random, i32 first_query,
                                 i32 first_key, i32 keep) {
    const u32 limits = static_cast<u32>(keep) * 0x01010101u;
    static_assert(calls * pairs % 128 == 0);
#pragma unroll
    for (i32 i = 0; i < calls * pairs; i += 128) {
      const i32 index = i + static_cast<i32>(threadIdx.x % 128), call = index / pairs, pair = index % pairs;
      u32 both = 0;
#pragma unroll
      for (i32 j = 0; j < 2; ++j) {
        u32 words[4];
        random.draw(words, static_cast<u32>(first_query + 2 * pair + j), first_key + 2 * call,
                    MultiplyWide{});
#pragma unroll
        for (i32 word = 0; word < 4; ++word)
          both |= highest_bits(at_most(words[word], limits)) << (16 * j + 4 * word);
      }
      to[call][pair] = both;
    }
  }

  /// Of the thread, in the consumer's words.
  template <i32 calls, i32 pairs>
  REGARD_DEVICE explicit KeptWeights(const u32 (&from)[calls][pairs])
      : words_(from[threadIdx.x % wave / 8] + threadIdx.x % 4) {}
  KeptWeights() = default;

  /// Of the i-th group of 8 queries, for `marked`.
  REGARD_DEVICE u32 dropped(i32 i) const {
    const i32 first = static_cast<i32>(threadIdx.x / wave % 4 * 4 + threadIdx.x / 4 % 2);
    return ~words_[4 * i] << (first_bit - first);
  }
  /// A weight of one of the thread's keys and queries: negative if it is dropped.
  REGARD_DEVICE static float marked(float weight, u32 dropped, i32 half, i32 query) {
    const u32 sign = dropped << (31 - first_bit - 2 * half - 16 * query) & 0x80000000u;
    return bits_as<float>(bits_as<u32>(weight) | sign);
  }

 private:
  static constexpr i32 first_bit = 13;  // where the bit of the first key and query is moved to

  /// Of four bytes, in the lowest bits.
  REGARD_DEVICE static u32 highest_bits(u32 bytes) { return (bytes >> 7 & 0x01010101u) * 0x10204080u >> 28; }

  const u32* words_;
};

/// The inputs of a tile's weights. `lse` and `delta`: addresses of the tile's numbers in shared memory. In
/// most tiles every query sees every key (`whole`).
struct Weights {
  const BackwardScoreScale& scale;
  TileSlope slope;
  KeptWeights kept;
  u32 lse, delta;
  bool whole;
  Seen seen;

  REGARD_DEVICE Weights(const BackwardScoreScale& scale_, const TileSlope& slope_, const KeptWeights& kept_,
                        u32 lse_, u32 delta_, const SeenQueries& queries, i32 first_query)
      : scale(scale_),
        slope(slope_),
        kept(kept_),
        lse(lse_ + threadIdx.x % 4 * 8),
        delta(delta_ + threadIdx.x % 4 * 8),
        whole(queries.in_all(first_query)),
        seen{} {
    if (!whole) seen = Seen::of_tile(queries, first_query);
  }
  REGARD_DEVICE Weights(const BackwardScoreScale& scale_, const TileSlope& slope_, const KeptWeights& kept_,
                        u32 lse_, u32 delta_, const Seen& seen_)
      : scale(scale_),
        slope(slope_),
        kept(kept_),
        lse(lse_ + threadIdx.x % 4 * 8),
        delta(delta_ + threadIdx.x % 4 * 8),
        whole(seen_.all_of_warp()),
        seen(seen_) {}

  /// Scores of one half of the queries become the factor of dP - D in dS: P, times the slope of the soft cap
  /// if there is one. P is packed, if there are registers for it.
  template <i32 half_of_tile>
  REGARD_DEVICE void make_p(BackwardScores& s, LeftFragments& p_fragments) const {
#pragma unroll
    for (i32 i = half_of_tile * groups / 2; i < (half_of_tile + 1) * groups / 2; ++i) {
      float of_queries[2];
      load_shared(of_queries, lse + 32 * i);
      const u32 dropped = config::dropout ? kept.dropped(i) : 0;
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        const i32 at = 4 * i + 2 * half;
        float by_score[2] = {1, 1};  // the derivative of the capped score
#pragma unroll
        for (i32 j = 0; j < 2; ++j)
          s[at + j] = p(s[at + j], slope.below(of_queries[j], 8 * i + j, half), at + j, by_score[j]);
        if constexpr (config::dropout)
#pragma unroll
          for (i32 j = 0; j < 2; ++j) s[at + j] = KeptWeights::marked(s[at + j], dropped, half, j);
        if constexpr (!config::softcap) continue;
        p_fragments[i / 2][i % 2 * 2 + half] = packed(s[at], s[at + 1]);
        s[at] *= by_score[0], s[at + 1] *= by_score[1];
      }
    }
    if constexpr (!config::softcap && !packs_late) {
      hide<half_of_tile * groups * 2, (half_of_tile + 1) * groups * 2>(s);
#pragma unroll
      for (i32 i = half_of_tile * groups; i < (half_of_tile + 1) * groups; ++i)
        p_fragments[i / 4][i % 4] = packed(s[2 * i], s[2 * i + 1]);
    }
  }

  /// dS = P (dP - D), packed; in fp16, times a factor. If P is not packed yet, what is not visible is set to
  /// 0, and P is packed as registers become free.
  REGARD_DEVICE void make_ds(BackwardScores& s, const BackwardScores& dp, LeftFragments& p_fragments,
                             LeftFragments& ds_fragments) const {
    if constexpr (packs_late) hide<0, block_q / 2>(s);
#pragma unroll
    for (i32 i = 0; i < groups; ++i) {
      float of_queries[2];
      load_shared(of_queries, delta + 32 * i);
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        const i32 at = 4 * i + 2 * half, element = i % 2 * 2 + half;
        if constexpr (packs_late) p_fragments[i / 2][element] = packed(s[at], s[at + 1]);
        ds_fragments[i / 2][element] =
            pair<config::dtype>(ds(s[at], dp[at], of_queries[0]), ds(s[at + 1], dp[at + 1], of_queries[1]));
      }
    }
  }

 private:
  static constexpr i32 groups = block_q / 8;
  static constexpr bool packs_late = block_q > group_rows;
  static_assert(!packs_late || !config::softcap, "P and its derivatives could not be distinguished later");

  /// Weights that dropout drops, which are negative, are 0 in dV.
  REGARD_DEVICE static u32 packed(float a, float b) {
    return config::dropout ? pair<config::dtype>(fmaxf(a, 0.f), fmaxf(b, 0.f)) : pair<config::dtype>(a, b);
  }
  REGARD_DEVICE float ds(float weight, float dp, float delta_of_query) const {
    float difference = dp - delta_of_query;
    if constexpr (config::dropout)
      difference = bits_as<i32>(weight) < 0 ? delta_of_query : fmaf(dp, scale.dropout_scale, -delta_of_query);
    return weight * (config::dtype == DType::fp16 ? scale.grad_p_factor * difference : difference);
  }
  /// P of score number `at`. Without a soft cap it is computed for invisible scores too, and `hide` sets it
  /// to 0 later.
  REGARD_DEVICE float p(float product, float below, i32 at, float& by_score) const {
    const float weight = scale.p(product, below, by_score);
    return !config::softcap || whole || seen.at(at) ? weight : 0;
  }
  /// Sets P of invisible scores to 0. A tile that is seen whole costs nothing.
  template <i32 first, i32 end>
  REGARD_DEVICE void hide(BackwardScores& s) const {
    if (whole) return;
#pragma unroll
    for (i32 i = first; i < end; ++i)
      if (!seen.at(i)) s[i] = 0;
  }
};

}  // namespace regard
