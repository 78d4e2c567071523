// Where fp32 sums become long ones, and what memory those take. The plan sizes it with the same constants.
#pragma once

#include "kernels/arguments.h"

namespace regard {

/// Keys that are summed up in one go, block by block (long_sum.h): so many, up to a whole block. Parts begin
/// at multiples of it, so that the sums of a row do not depend on what rows are computed beside it.
constexpr i64 keys_of_blocks(i64 keys, i64 block_k) {
  return (keys + block_k - 1) / block_k * block_k;
}
constexpr i64 part_of_keys(i64 block_k) {
  return keys_of_blocks(1 << 15, block_k);
}
/// Keys of a part of dQ, of which all that was summed up before is kept at once: that is much memory.
constexpr i64 part_of_grad_q(i64 block_k) {
  return keys_of_blocks(1 << 17, block_k);
}

/// Whether the keys [begin, end) lie in several parts.
constexpr bool in_parts(i64 begin, i64 end, i64 part) {
  return begin < end && begin / part != (end - 1) / part;
}

/// Keys that are added one after the other, as decode has too few in a step to sum them up by themselves.
constexpr i64 long_chain = 1 << 11;

/// Blocks of queries that are summed up in one go, or heads that share a bias.
constexpr i64 most_additions = 1024;

/// Floats of what a softmax has summed up before, of so many rows and numbers of their O.
constexpr i64 earlier_sums(i64 rows, i64 numbers) {
  return numbers + 2 * rows;
}

}  // namespace regard
