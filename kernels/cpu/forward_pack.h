// K and V of a step as operands of the forward kernel's products: packed by each block of rows into its
// scratch, or, where many blocks read them, once for all, by blocks of their own that run before the others.
#pragma once

#include "kernels/cpu/forward_layout.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/pack_turned.h"
#include "kernels/cpu/scores.h"
#include "kernels/cpu/values.h"

namespace regard {

constexpr ForwardLayout layout(depth(key::d), depth(key::block_k), key::dv, key::block_q, key::block_k,
                               elementwise_bias);

/// For vectors packing is 1.5 % of a block's time, for the tile unit a tenth.
constexpr bool can_pack_once = amx;
inline bool packed_once(const Arguments& a) {
  return can_pack_once && a.packed_steps;
}

struct PackedStep {
  float *keys, *values;
};

/// What the products of a step read; rows of K lie `key_row` operand elements apart.
struct StepOperands {
  const float* keys;
  i64 key_row;
  const float* values;
};

/// Whether K of the step at `first_key` is an operand where it lies, and no row behind the last would be
/// read. For vectors rows of operand elements without gaps are one, for the tile unit rows of whole cache
/// lines, near each other, as those far apart would displace each other.
REGARD_CALLED inline bool keys_in_place(const Head& head, i64 first_key) {
  constexpr i64 bytes = bytes_of<key::dtype>, line = 64, farthest = 2048;
  const i64 row_bytes = head.arguments.k.row * bytes, rest = head.sequence.sk - first_key;
  const u64 address = reinterpret_cast<u64>(head.k(first_key));
  if (rest < key::block_k && rest % key_step != 0) return false;
  if constexpr (amx)
    return key::d * bytes % line == 0 && row_bytes % line == 0 && row_bytes <= farthest &&
           address % line == 0;
  return depth(key::d) * 4 == key::d * bytes && row_bytes == key::d * bytes && address % 4 == 0;
}

/// The keys `range` of the step at `first_key`, as far as they exist; the rows behind them become 0.
REGARD_CALLED inline void pack_step(const PackedStep& to, const Head& head, i64 first_key, Range range) {
  const Arguments& a = head.arguments;
  const i64 exist = smaller(key::block_k, head.sequence.sk - first_key);
  const i64 first = first_key + range.begin, count = smaller(exist, range.end) - range.begin;
  const i64 capacity = range.end - range.begin;
  if (!keys_in_place(head, first_key))
    pack_rows<key::d>(to.keys + range.begin * depth(key::d), head.k(first), a.k.row, count, capacity);
  if constexpr (amx)
    pack_turned<key::dv, key::block_k>(to.values, head.v(first_key), a.v.row, exist);
  else
    pack_columns<key::dv, width>(to.values + depth(range.begin) * width, head.v(first), a.v.row, count,
                                 capacity);
}

/// Where the workspace has the step at `first_key`: [hk][steps][keys, values]. A sequence begins a step of
/// its own.
inline PackedStep packed_step(const Head& head, i64 first_key) {
  const Arguments& a = head.arguments;
  const Sequence& sequence = head.sequence;
  const i64 first_step = first_key_of_all(a, sequence) / key::block_k + sequence.batch;
  const i64 step = first_step + first_key / key::block_k;
  const i64 place = head.kv_head * ForwardLayout::most_steps(a.b, a.tk, key::block_k) + step;
  u8* const keys = a.packed_steps + place * layout.step();
  return {reinterpret_cast<float*>(keys), reinterpret_cast<float*>(keys + layout.keys)};
}

/// Whether a query row may see one of the keys from `first_key` to the end of its step: windows move with
/// their rows, so the first row and the last one know. Ranges do not.
inline bool step_is_seen(const Head& head, i64 first_key) {
  const Arguments& a = head.arguments;
  const Sequence& sequence = head.sequence;
  if (first_key >= sequence.sk || sequence.sq == 0) return false;
  if (a.ranges) return true;
  const i64 first = visible_keys(a, sequence, 0).lo, last = visible_keys(a, sequence, sequence.sq - 1).hi;
  return first_key < last && (first_key + key::block_k > first || first_key < a.sink_tokens);
}

/// Block `number` of those that pack: one step of one K/V head.
inline void pack_block(const Arguments& a, i64 number) {
  const i64 steps = ceil_divide(a.sk, key::block_k);
  const i64 first_key = number % steps * key::block_k, pair = number / steps;
  const Head head = head_of(a, pair / a.hk, pair % a.hk * (a.hq / a.hk));
  if (!step_is_seen(head, first_key)) return;
  const i64 keys = smaller(key::block_k, round_up(head.sequence.sk - first_key, key_step));
  pack_step(packed_step(head, first_key), head, first_key, {0, keys});
}

}  // namespace regard
