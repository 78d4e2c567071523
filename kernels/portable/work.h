// Which rows, head and part of the keys a block of the grid has: b * hq * blocks of rows * splits blocks.
#pragma once

#include "kernels/portable/tile.h"

namespace regard {

struct Work {
  i32 batch, head, split, first_row;

  Work() = default;

  REGARD_DEVICE Work(const Arguments& a, i64 block) {
    split = static_cast<i32>(block % a.splits);
    block /= a.splits;
    const i64 heads = a.b * a.hq, row_blocks = ceil_divide(a.sq, block_q);
    i64 index, row_block;
    if (key::mask != Mask::none && a.positional) {
      // Under a causal mask the last rows see most keys. They go first, so that none is left at the end.
      const i64 together = a.side_by_side, first = block / (together * row_blocks) * together;
      const i64 here = smaller(together, heads - first);
      block -= first * row_blocks;
      index = first + block % here;
      row_block = row_blocks - 1 - block / here;
    } else {
      index = block / row_blocks;
      row_block = block % row_blocks;
    }
    batch = static_cast<i32>(index / a.hq);
    head = static_cast<i32>(index % a.hq);
    first_row = static_cast<i32>(row_block * block_q);
  }
};

}  // namespace regard
