// K and V of a step as operands of the forward kernel's products.
#pragma once

#include "kernels/cpu/amx_product.h"
#include "kernels/cpu/attributes.h"
#include "kernels/cpu/forward_keys.h"
#include "kernels/cpu/forward_layout.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/scores.h"
#include "kernels/cpu/split_bf16.h"
#include "kernels/cpu/values.h"

namespace regard {

constexpr CpuForwardLayout layout({.depth = depth(config::d),
                                   .key_depth = depth(config::block_k),
                                   .pieces = pieces,
                                   .dv = config::dv,
                                   .block_q = config::block_q,
                                   .block_k = config::block_k,
                                   .bias = elementwise_bias,
                                   .gathered_bytes = gathers ? bytes_of<config::dtype> : 0,
                                   .d = config::d});

/// The distance from an operand's high pieces to its low ones.
constexpr i64 low_queries = depth(config::d) * tile, low_keys = depth(config::d) * config::block_k,
              low_values = depth(config::block_k) * width, low_p = layout.scores / 4;

static_assert(pieces == 1 || 2 * transposed_rows * width * 2 <= layout.scores, "pieces of V are made there");

struct PackedStep {
  float *keys, *values;
};

/// What the products of a step read; rows of K are `key_row` operand elements apart.
struct StepOperands {
  const float* keys;
  i64 key_row;
  const float* values;
};

/// Whether K of a step with `count` keys can be used as an operand in place, in one piece, without reading
/// past the last row. Vectors need contiguous rows of operand elements; the tile unit needs rows of whole
/// cache lines close to each other, as distant ones would evict each other.
REGARD_NOINLINE inline bool keys_in_place(const StepRows& rows, i64 count) {
  constexpr i64 bytes = bytes_of<config::dtype>, line = 64, farthest = 2048;
  const i64 row_bytes = rows.k_row * bytes;
  const u64 address = reinterpret_cast<u64>(rows.k);
  if (pieces > 1 || quads || (count < config::block_k && count % key_step != 0)) return false;
  if constexpr (amx)
    return config::d * bytes % line == 0 && row_bytes % line == 0 && row_bytes <= farthest &&
           address % line == 0;
  return depth(config::d) * 4 == config::d * bytes && row_bytes == config::d * bytes && address % 4 == 0;
}

/// Clears packed V of the keys of `range` that are not `seen`; both count from the step's first key. They
/// have no weight, but what a cache holds there may be NaN.
REGARD_NOINLINE inline void clear_unseen(float* values, Range range, const SeenKeys& seen) {
  constexpr i64 together = quads ? 4 : vnni ? 2 : 1;
  for (i64 key = range.begin; key < range.end; ++key) {
    if (seen.part[0].contains(key) || seen.part[1].contains(key)) continue;
    for (i64 column = 0; column < width; ++column)
      for (i64 piece = 0; piece < pieces; ++piece) {
        const i64 element = amx ? tiles_by_rows(depth(config::block_k)).at(column, key / together) +
                                      column % 16 * 16 + key / together % 16
                                : key / together * place(width) + place(column);
        u8* const at = reinterpret_cast<u8*>(values + piece * low_values + element);
        __builtin_memset(at + key % together * 2, 0, vnni ? 2 : 4);
      }
  }
}

/// Packs the keys `range` of a step, as far as they exist: there are `exist`; the rows past them become 0.
/// `memory`: that of the scores.
REGARD_NOINLINE inline void pack_step(const PackedStep& to, const StepRows& rows, i64 exist, Range range,
                                      [[maybe_unused]] float* memory) {
  const u8* const first_k = row_address(rows.k, rows.k_row, range.begin);
  const i64 count = smaller(exist, range.end) - range.begin, capacity = range.end - range.begin;
  if constexpr (pieces == 2) {
    pack_row_pieces<config::d>(to.keys + range.begin * depth(config::d), low_keys, first_k, rows.k_row, count,
                               capacity);
    return pack_transposed_row_pieces<config::dv, config::block_k>(to.values, low_values, rows.v, rows.v_row,
                                                                   exist, reinterpret_cast<u16*>(memory));
  }
  if (!keys_in_place(rows, exist))
    pack_rows<config::d>(to.keys + range.begin * depth(config::d), first_k, rows.k_row, count, capacity);
  if constexpr (amx)
    pack_transposed_rows<config::dv, config::block_k>(to.values, rows.v, rows.v_row, exist);
  else
    pack_columns<config::dv, width>(to.values + depth(range.begin) * width,
                                    row_address(rows.v, rows.v_row, range.begin), rows.v_row, count,
                                    capacity);
}

}  // namespace regard
