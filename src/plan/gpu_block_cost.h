// The expected time of a block of query rows on a GPU, from its tiles of keys.
#pragma once

#include "plan/cost.h"

namespace regard {

/// Edges that a mask draws through the scores of a block.
struct MaskEdges {
  bool left = false, right = false;

  explicit MaskEdges(const Problem&);
  bool any() const { return left || right; }
  bool both() const { return left && right; }
};

/// A tile of keys has barriers, and products that begin and end.
constexpr Seconds of_tile = 0.3e-6;

/// Keys that a block computes, on average: an edge moves by one key per row, and ends somewhere in a tile.
/// Blocks of a cluster go through the same tiles; at the right edge each skips those that it does not see.
double keys_of_block(const Problem&, const Algorithm&);

/// How much faster than in a long run. It makes no difference where 8-bit V is transposed meanwhile.
double clock_of(const Problem&, double flops_per_second);

/// The time of a block of query rows: its rows, and each key that it computes. The rate is a
/// multiprocessor's.
struct BlockCost {
  Seconds of_rows, of_key;

  BlockCost(const Problem&, const Algorithm&, double flops_per_second, Seconds of_tile);
  Seconds seconds(double keys) const { return of_rows + keys * of_key; }
};

/// The share of the memory's rate that `busy` of that many multiprocessors use: 0 .. 1. Two share a path to
/// memory, and one of them alone uses 1.75 times its share of the whole (H200, docs/hopper.md). Just above a
/// half it falls: a round ends with those that share.
double drawn_share(double busy, double multiprocessors);

}  // namespace regard
