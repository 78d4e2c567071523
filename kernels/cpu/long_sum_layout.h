// When fp32 sums become long ones, and how much memory those take. The plan computes its size with the same
// constants.
#pragma once

#include "kernels/arguments.h"

namespace regard {

/// Keys that are summed in one chain, block by block (long_sum.h): about this many, up to a whole block.
/// Parts begin at multiples of it, so that the sums of a row do not depend on which rows are computed
/// together with it.
constexpr i64 keys_of_blocks(i64 keys, i64 block_k) {
  return (keys + block_k - 1) / block_k * block_k;
}
constexpr i64 part_of_keys(i64 block_k) {
  return keys_of_blocks(1 << 15, block_k);
}
/// Keys of a part of dQ. All sums of the earlier parts are kept at once, which takes much memory.
constexpr i64 part_of_grad_q(i64 block_k) {
  return keys_of_blocks(1 << 17, block_k);
}

/// Whether the keys [begin, end) are in several parts.
constexpr bool is_long_sum(i64 begin, i64 end, i64 part) {
  return begin < end && begin / part != (end - 1) / part;
}

/// Keys that are added one after the other, as a step of decode has too few keys for a separate sum.
constexpr i64 long_chain = 1 << 11;

/// Blocks of queries that are summed in one chain, or heads that share a bias.
constexpr i64 most_additions = 1024;

/// Floats that a softmax needs for its earlier sums, for `rows` rows and the numbers of their O.
constexpr i64 earlier_sums(i64 rows, i64 numbers) {
  return numbers + 2 * rows;
}

}  // namespace regard
