// K and V of a step as operands of the forward kernel's products.
#pragma once

#include "kernels/cpu/attributes.h"
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
                                   .bias = elementwise_bias});

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

/// Whether K of the step at `first_key` can be used as an operand in place, in one piece, without reading
/// past the last row. Vectors need contiguous rows of operand elements; the tile unit needs rows of whole
/// cache lines close to each other, as distant ones would evict each other.
REGARD_NOINLINE inline bool keys_in_place(const Head& head, i64 first_key) {
  constexpr i64 bytes = bytes_of<config::dtype>, line = 64, farthest = 2048;
  const i64 row_bytes = head.arguments.k.row * bytes, rest = head.sequence.sk - first_key;
  const u64 address = reinterpret_cast<u64>(head.k(first_key));
  if (pieces > 1 || (rest < config::block_k && rest % key_step != 0)) return false;
  if constexpr (amx)
    return config::d * bytes % line == 0 && row_bytes % line == 0 && row_bytes <= farthest &&
           address % line == 0;
  return depth(config::d) * 4 == config::d * bytes && row_bytes == config::d * bytes && address % 4 == 0;
}

/// Packs the keys `range` of the step at `first_key`, as far as they exist; the rows past them become 0.
/// `memory`: that of the scores.
REGARD_NOINLINE inline void pack_step(const PackedStep& to, const Head& head, i64 first_key, Range range,
                                      [[maybe_unused]] float* memory) {
  const Arguments& a = head.arguments;
  const i64 exist = smaller(config::block_k, head.sequence.sk - first_key);
  const i64 first = first_key + range.begin, count = smaller(exist, range.end) - range.begin;
  const i64 capacity = range.end - range.begin;
  if constexpr (pieces == 2) {
    pack_row_pieces<config::d>(to.keys + range.begin * depth(config::d), low_keys, head.k(first), a.k.row,
                               count, capacity);
    return pack_transposed_row_pieces<config::dv, config::block_k>(
        to.values, low_values, head.v(first_key), a.v.row, exist, reinterpret_cast<u16*>(memory));
  }
  if (!keys_in_place(head, first_key))
    pack_rows<config::d>(to.keys + range.begin * depth(config::d), head.k(first), a.k.row, count, capacity);
  if constexpr (amx)
    pack_transposed_rows<config::dv, config::block_k>(to.values, head.v(first_key), a.v.row, exist);
  else
    pack_columns<config::dv, width>(to.values + depth(range.begin) * width, head.v(first), a.v.row, count,
                                    capacity);
}

}  // namespace regard
