// From the scores of a forward kernel to P, the weights of V: the online softmax.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/forward_pack.h"
#include "kernels/cpu/softmax.h"
#include "kernels/cpu/step_key_ranges.h"

namespace regard {

/// One tile of query rows: the state kept from step to step.
struct QueryTile {
  alignas(64) float row_max[tile];  // near the largest of the row's scores so far, -infinity before the first
  alignas(64) float sum[tile];      // of 2^((score - row_max) * scale_log2)
  alignas(64) float largest[tile];  // the largest of the row's scores so far
  LaneRows<tile> lane_rows;
  TileKeyRanges<tile> visible;
  float* q;       // packed: [depth(d)][tile]; for the tile unit in panels of 16 rows
  float* output;  // [tile][width], for the tile unit [width][tile] in tiles; not yet divided by the sum
  i64 rows;
  bool packed;   // q has been packed
  bool started;  // output holds something
};

/// Raises the maximum of each row to include the scores of a product.
template <int vectors>
REGARD_INLINE void raise_maximum(float* maximum, const RegisterTile<tile_rows, vectors>& product) {
  REGARD_UNROLL
  for (int v = 0; v < vectors; ++v) {
    Floats largest = load<Floats>(maximum + v * lanes);
    REGARD_UNROLL
    for (int r = 0; r < tile_rows; ++r) largest = max(largest, product.sum[r][v]);
    store(maximum + v * lanes, largest);
  }
}

/// Raises the rows' largest scores to those of a step.
REGARD_INLINE void raise_largest(QueryTile& rows, const float* maximum) {
  for (i64 lane = 0; lane < tile; lane += lanes)
    store(rows.largest + lane, max(load<Floats>(rows.largest + lane), load<Floats>(maximum + lane)));
}

/// Weights are 2^(score - row_max): as long as none is too large, row_max can stay as it is and the sums so
/// far need not be rescaled.
constexpr float largest_exponent = 8;

/// Where row_max has to move to the largest score; also where either is NaN.
REGARD_INLINE Ints needs_rescale(Floats largest, Floats row_max, float scale_log2) {
  return ~((largest - row_max) * scale_log2 <= largest_exponent);
}

/// Subtracts before scaling: the difference is exact near the maximum, however large the scores are.
template <Precision of_bf16>
REGARD_INLINE Floats p_of(Floats score, Floats row_max, float scale_log2) {
  constexpr Precision precision = config::dtype == DType::bf16 ? of_bf16 : Precision::fp32;
  return exp2<precision>((score - row_max) * scale_log2);
}

/// Stores the weights of neighbouring keys, for a vector of rows, as operands.
REGARD_INLINE void store_p(float* to, Floats low, Floats high) {
  if constexpr (vnni) {
    store_vnni<low_p>(to, low, high);
  } else {
    store(to, low);
    store(to + tile, high);
  }
}

/// Where the weights of a vector of rows are stored, from the first key of the step on, and the distance to
/// those of the next operand element: P^T is stored as [depth(key)][tile]; for the tile unit in panels of
/// one vector each.
REGARD_INLINE float* p_of_lanes(float* p, i64 lane) {
  static_assert(!amx || lanes == 16);
  return p + (amx ? lane * depth(config::block_k) : place(lane));
}
constexpr i64 p_row = amx ? lanes : tile;

/// P^T from S^T, as an operand of the product with V; except for the tile unit and quads, it may overwrite
/// S^T. `scale_log2` converts scores to base-2 logarithms. `rescale` gets the factor for the sums of each row
/// so far; returns whether any is not 1.
REGARD_OPTIMIZE bool softmax(const Arguments& a, const philox::Random& random, QueryTile& rows,
                             const ForwardScoreTile& part, const StepKeyRanges& ranges, const float* maximum,
                             float scale_log2, float* p, float* rescale) {
  const Floats one = rounded(broadcast(1.0f));
  Ints changed{};
  for (i64 lane = 0; lane < tile; lane += lanes) {
    const Range keys = ranges.keys_of_p(lane / strip);
    const Floats before = load<Floats>(rows.row_max + lane), largest = load<Floats>(maximum + lane);
    const Ints moves = needs_rescale(largest, before, scale_log2);
    const Floats row_max = select(moves, largest, before);
    // A row that has seen no key yet has a row_max of -infinity; -infinity - -infinity would be NaN.
    const Floats zero = select(row_max == -infinity, Floats{}, row_max);
    // Exactly 1 where row_max stays: in a long row the error of a factor near 1 would accumulate.
    const Floats factor = select(moves, exp2((before - zero) * scale_log2), broadcast(1.0f));
    changed |= moves;
    Floats sum{};  // a separate sum (long_sum.h)

    DropoutLanes dropout(a, random, rows.lane_rows.row[lane]);
    const auto weight = [&](i64 key) {
      const Floats of_key =
          p_of<Precision::bf16_sum>(load<Floats>(part.scores + key * tile + lane), zero, scale_log2);
      sum = of_key * one + sum;  // a multiply-add, because the adder is the busier unit here
      return of_key;
    };
    float* const to = p_of_lanes(p, lane);
    const auto adapt = [&]([[maybe_unused]] i64 key, Floats& low, Floats& high) {
      if constexpr (config::dropout) {
        const KeptPair kept = dropout.kept(static_cast<u64>(part.first_key + key));
        low = select(kept.first, low, Floats{});
        high = select(kept.second, high, Floats{});
      }
      if constexpr (row_factors) {
        low *= part.factors->v[key];
        high *= part.factors->v[key + 1];
      }
    };
    for (i64 key = keys.begin; key < keys.end; key += p_keys) {
      Floats low = weight(key), high = weight(key + 1);
      adapt(key, low, high);
      if constexpr (quads) {
        Floats third = weight(key + 2), fourth = weight(key + 3);
        adapt(key + 2, third, fourth);
        store_quads(to + filled_depth(key) * p_row, low, high, third, fourth);
      } else {
        store_p(to + filled_depth(key) * p_row, low, high);
      }
    }
    store(rows.row_max + lane, row_max);
    store(rows.sum + lane, load<Floats>(rows.sum + lane) * factor + sum);
    store(rescale + lane, factor);
  }
  return any(changed);
}

/// The number of slices, each of two keys and one vector of rows, in which the weights of a block of keys
/// are made during a product.
constexpr i64 p_slices = tile_rows / 2 * (tile / lanes);

/// Whether weights are made during products. Not with dropout, which needs the weights of a row one after the
/// other; nor with factors of rows, which come between a weight and its operand; nor with ALiBi, under which
/// scores keep rising; nor with few registers or short vectors, as none are left; nor if a product has no
/// more steps than slices, as it would end before they are made.
constexpr bool makes_p_beside_products = tile == tile_vectors * lanes && !amx && !config::dropout && !alibi &&
                                         !row_factors && depth(config::d) > p_slices;

/// Computes the weights of each block of key_step keys while the next block is multiplied: most of an
/// exponential runs on units that a product leaves idle. row_max has to be known before the scores are.
class PBesideProducts {
 public:
  PBesideProducts(const QueryTile& rows, float scale_log2) : scale_log2_(scale_log2) {
    for (i64 lane = 0; lane < tile; lane += lanes) {
      store(row_max_ + lane, load<Floats>(rows.row_max + lane));
      store(sum_ + lane, Floats{});
    }
  }

  /// Called before the weights of the first block are made.
  void set_row_max(const float* maximum) { __builtin_memcpy(row_max_, maximum, sizeof row_max_); }

  /// Makes the scores of a block, and the weights of the previous block, whose scores are stored before
  /// these.
  REGARD_OPTIMIZE void multiply_keys(float* scores, const float* keys, const float* q, float* maximum,
                                     float* p) {
    constexpr i64 height = depth(config::d), slice = height / p_slices;
    const float* const before = scores - tile_rows * tile;
    RegisterTile<tile_rows, tile_vectors> product;
    product.clear();
    for (i64 i = 0; i < p_slices; ++i) {
      make_slice(before, p, i);
      product.add_product(keys + i * slice, height, 1, q + i * slice * tile, tile, slice);
    }
    product.add_product(keys + p_slices * slice, height, 1, q + p_slices * slice * tile, tile,
                        height - p_slices * slice);
    product.store_to(scores, tile);
    if (maximum) raise_maximum(maximum, product);
  }

  /// Makes the weights of a block without a product, for the rows of these strips.
  REGARD_NOINLINE void make(const float* scores, float* p, Range which) {
    for (i64 i = 0; i < p_slices; ++i) {
      const i64 at = i % (tile / lanes) * lanes / strip;
      if (which.contains(at)) make_slice(scores, p, i);
    }
  }

  /// Whether row_max was high enough; if so, stores it and the sums in the rows.
  bool keep(QueryTile& rows, const float* maximum) const {
    Ints moves{};
    for (i64 lane = 0; lane < tile; lane += lanes)
      moves |= needs_rescale(load<Floats>(maximum + lane), load<Floats>(row_max_ + lane), scale_log2_);
    if (any(moves)) return false;
    __builtin_memcpy(rows.row_max, row_max_, sizeof row_max_);
    for (i64 lane = 0; lane < tile; lane += lanes)
      store(rows.sum + lane, load<Floats>(rows.sum + lane) + load<Floats>(sum_ + lane));
    return true;
  }

 private:
  REGARD_INLINE void make_slice(const float* scores, float* p, i64 i) {
    const i64 key = i / (tile / lanes) * 2, lane = i % (tile / lanes) * lanes;
    const float* const from = scores + key * tile + lane;
    const Floats row_max = load<Floats>(row_max_ + lane);
    const Floats low = p_of<Precision::beside>(load<Floats>(from), row_max, scale_log2_);
    const Floats high = p_of<Precision::beside>(load<Floats>(from + tile), row_max, scale_log2_);
    store(sum_ + lane, load<Floats>(sum_ + lane) + low + high);
    store_p(p + filled_depth(key) * tile + lane, low, high);
  }

  float scale_log2_;
  alignas(64) float row_max_[tile], sum_[tile];
};

}  // namespace regard
