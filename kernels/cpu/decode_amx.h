// The two products of the decode kernel on the tile unit, for 16 query rows: S^T = K Q^T, and O += P V.
//
// K and V are read where they are stored. A row of K is pairs along the depth, as the unit takes them. A row
// of V is pairs of columns, but the unit adds up pairs of keys: so P is an operand twice, once with zeros for
// the odd column of each pair, and once with zeros for the even one. That doubles the products, which still
// take less time than reading memory, and no rows have to be interleaved. Fewer query rows would leave most
// of a tile empty; there the vector code, which prefetches, is faster.
#pragma once

#include "kernels/cpu/amx.h"
#include "kernels/cpu/decode_keys.h"
#include "kernels/cpu/decode_layout.h"
#include "kernels/cpu/long_sum.h"
#include "kernels/cpu/transpose.h"

namespace regard {

/// Whether the tile unit computes both products. Then K and V are operands as they are stored, and P is
/// stored key by key, not in pairs of keys.
constexpr bool uses_tiles =
    decode_uses_tiles({.unit = target::amx && config::dtype == DType::bf16 && row_type == DType::bf16,
                       .pack_gqa = config::pack_gqa,
                       .d = config::d,
                       .dv = config::dv});

/// 16 rows, `stride` 32-bit elements apart.
struct RowGroup {
  const float* first;
  i64 stride;
};

static_assert(!uses_tiles || !vnni);

class DecodeTiles {
 public:
  static constexpr i64 group = 16, groups = config::block_k / group, tile = 16 * 16;

  /// Where the rows of a step are; `copy` is memory for groups whose rows are not at one distance, or are not
  /// all seen: rows that are not seen, which may be NaN, become zeros there. `seen` is counted from the
  /// step's first key.
  REGARD_NOINLINE void find(const DecodeKeys& keys, const SeenKeys& seen, float* copy) {
    for (i64 g = 0; g < groups; ++g, copy += group * row_elements) {
      k_[g] = find_group<config::d>(keys.k, g * group, seen, copy);
      v_[g] = config::latent ? k_[g]
                             : find_group<config::dv>(keys.v, g * group, seen, copy + group * config::d / 2);
    }
  }

  /// Scores of all keys of the step, [key][16 rows]. `q` is Q^T in pairs along d, [d / 2][16 rows].
  REGARD_OPTIMIZE void compute_scores(float* scores, const float* q) const {
    for (i64 g = 0; g < groups; g += at_once) {
      for_each_tile([]<int t>(i64) { AmxTiles::clear<t>(); });
      for (i64 step = 0; step < depth_steps; ++step) {
        AmxTiles::load<4>(q + step * tile, 16);
        for_each_tile([&]<int t>(i64 i) {
          constexpr int operand = 5 + t % 3;
          AmxTiles::load<operand>(k_[g + i].first + step * 16, k_[g + i].stride);
          AmxTiles::multiply_add<t, operand, 4>();
        });
      }
      for_each_tile([&]<int t>(i64 i) { AmxTiles::store<t>(scores + (g + i) * tile, 16); });
    }
  }

  /// O = O * rescale + P V. `p` is P^T, [key][16 rows]. O is tiles of 16 rows: the even ones of 32 columns,
  /// then the odd ones.
  REGARD_OPTIMIZE void add_values(float* output, const float* p, const float* rescale,
                                  const DecodeKeys& keys) const {
    if (rescale) DecodeTiles::rescale(output, rescale);
    alignas(64) float weights[groups * 2 * tile];
    for (i64 g = 0; g < groups; ++g) store_weights(weights + g * 2 * tile, p + g * tile);
    i64 part = 0;
    for (; part + 2 <= config::dv / 32; part += 2) {
      fetch_ahead(keys, part / 2);
      add_parts<2>(output, weights, part);
    }
    if constexpr (config::dv % 64 != 0) add_parts<1>(output, weights, part);
  }

  static void rescale(float* output, const float* factors) {
    for (i64 i = 0; i < config::dv / 16; ++i) rescale_rows(output + i * tile, 16, 16, factors);
  }

  /// A row of O, in the order of its columns.
  static void read_row(float* to, const float* output, i64 row) {
    for (i64 part = 0; part < config::dv / 32; ++part, to += 32) {
      const Floats even = load<Floats>(output + 2 * part * tile + row * 16);
      const Floats odd = load<Floats>(output + (2 * part + 1) * tile + row * 16);
      store(to, in_order<false>(even, odd, NumbersBelow<lanes>::type()));
      store(to + 16, in_order<true>(even, odd, NumbersBelow<lanes>::type()));
    }
  }

 private:
  static constexpr i64 depth_steps = config::d / 32, at_once = smaller<i64>(groups, 4);
  static constexpr i64 row_elements = decode_copied_numbers(config::d, config::dv, config::latent) / 2;

  template <class Use>
  REGARD_INLINE static void for_each_tile(const Use& use) {
    use.template operator()<0>(0);
    if constexpr (at_once > 1) use.template operator()<1>(1);
    if constexpr (at_once > 2) use.template operator()<2>(2);
    if constexpr (at_once > 2) use.template operator()<3>(3);
  }

  template <i64 n, class Rows>
  static RowGroup find_group(const Rows& rows, i64 first, const SeenKeys& seen, float* copy) {
    const auto is_seen = [&](i64 key) {
      return (key >= seen.part[0].begin && key < seen.part[0].end) ||
             (key >= seen.part[1].begin && key < seen.part[1].end);
    };
    bool all = false;
    for (const Range& range : seen) all |= range.begin <= first && first + group <= range.end;
    if (const i64 stride = all ? rows.distance(first, group) : 1; stride % 4 == 0)
      return {reinterpret_cast<const float*>(rows.row(first)), stride / 4};
    for (i64 i = 0; i < group; ++i) {
      float* const to = copy + i * n / 2;
      if (is_seen(first + i))
        __builtin_memcpy(to, rows.row(first + i), n * 2);
      else
        __builtin_memset(to, 0, n * 2);
    }
    return {copy, n / 2};
  }

  /// Prefetches the first group of K of the next step, a share of it for each pair of parts: otherwise memory
  /// would be idle while the values of latent attention are multiplied. The hardware prefetches the rest by
  /// itself.
  REGARD_INLINE static void fetch_ahead(const DecodeKeys& keys, i64 share) {
    constexpr i64 shares = larger<i64>(config::dv / 64, 1);
    for (i64 key = share * group / shares; key < (share + 1) * group / shares; ++key) {
      const u8* const row = keys.k.ahead(key);
      REGARD_UNROLL
      for (i64 byte = 0; byte < config::d * 2; byte += 64) __builtin_prefetch(row + byte, 0, 2);
    }
  }

  /// The weights of 16 keys as the first operand, [row][key]: the lower half of each pair, and the upper one.
  static void store_weights(float* to, const float* p) {
    Floats rows[lanes];
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) rows[i] = load<Floats>(p + i * lanes);
    transpose(rows);
    REGARD_UNROLL
    for (int i = 0; i < lanes; ++i) {
      const Words low = bits_as<Words>(pair_of(rows[i], Floats{}));
      store(to + i * lanes, bits_as<Floats>(low));
      store(to + tile + i * lanes, bits_as<Floats>(low << 16));
    }
  }

  /// O += P V for some parts of 32 columns.
  template <int parts>
  void add_parts(float* output, const float* weights, i64 part) const {
    float* const sums = output + 2 * part * tile;
    AmxTiles::load<0>(sums, 16);
    AmxTiles::load<1>(sums + tile, 16);
    if constexpr (parts > 1) AmxTiles::load<2>(sums + 2 * tile, 16);
    if constexpr (parts > 1) AmxTiles::load<3>(sums + 3 * tile, 16);
    for (i64 g = 0; g < groups; ++g) {
      const float* const v = v_[g].first + part * 16;
      AmxTiles::load<4>(weights + g * 2 * tile, 16);
      AmxTiles::load<5>(weights + g * 2 * tile + tile, 16);
      AmxTiles::load<6>(v, v_[g].stride);
      AmxTiles::multiply_add<0, 4, 6>();
      AmxTiles::multiply_add<1, 5, 6>();
      if constexpr (parts > 1) AmxTiles::load<7>(v + 16, v_[g].stride);
      if constexpr (parts > 1) AmxTiles::multiply_add<2, 4, 7>();
      if constexpr (parts > 1) AmxTiles::multiply_add<3, 5, 7>();
    }
    AmxTiles::store<0>(sums, 16);
    AmxTiles::store<1>(sums + tile, 16);
    if constexpr (parts > 1) AmxTiles::store<2>(sums + 2 * tile, 16);
    if constexpr (parts > 1) AmxTiles::store<3>(sums + 3 * tile, 16);
  }

  RowGroup k_[groups], v_[groups];
};

}  // namespace regard
