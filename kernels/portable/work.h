// Which rows, head and part of the keys a block of the grid has: b * heads * blocks of rows * splits blocks.
// If heads are packed, the head is the first of them, and rows are packed ones (pack_gqa.h).
#pragma once

#include "kernels/portable/die_order.h"
#include "kernels/portable/forward_schedule.h"
#include "kernels/portable/pack_gqa.h"
#include "kernels/portable/score_tile.h"

namespace regard {

struct PortableForwardWork {
  i32 batch, head, split, first_row;

  PortableForwardWork() = default;

  /// In 32 bits, which hold any grid, because a 64-bit division is a function call.
  REGARD_DEVICE PortableForwardWork(const PortableForwardArguments& a, u32 block) {
    const HeadGroups groups(a, a.pack_gqa);
    const u32 splits = static_cast<u32>(a.splits), heads_of_batch = groups.heads;
    if constexpr (target::dies > 1) {
      if (dies_are_even(a, heads_of_batch, target::dies))
        block = in_die_order(block, static_cast<u32>(a.b) * heads_of_batch * blocks_of(groups.rows) * splits,
                             target::dies);
    }
    split = static_cast<i32>(block % splits);
    block /= splits;
    const u32 heads = static_cast<u32>(a.b) * heads_of_batch;
    const u32 row_blocks = blocks_of(groups.rows);
    u32 index, row_block;
    if (config::bits || config::ranges || (config::mask != Mask::none && a.positional)) {
      // Under a causal mask, and under most others, the last rows see the most keys. They run first, so that
      // none is left at the end.
      const u32 together = smaller(static_cast<u32>(a.side_by_side), heads);
      const u32 first = block / (together * row_blocks) * together;
      const u32 here = smaller(together, heads - first);
      block -= first * row_blocks;
      index = first + block % here;
      row_block = row_blocks - 1 - block / here;
    } else {
      index = block / row_blocks;
      row_block = block % row_blocks;
    }
    if constexpr (target::dies > 1) {
      // Each die gets all batches of its heads, because batches may have different lengths.
      const u32 group = heads_of_batch / static_cast<u32>(a.hk), kv_pair = index / group;
      batch = static_cast<i32>(kv_pair % static_cast<u32>(a.b));
      head = static_cast<i32>((kv_pair / static_cast<u32>(a.b) * group + index % group) *
                              static_cast<u32>(a.pack_gqa));
    } else {
      batch = static_cast<i32>(index / heads_of_batch);
      head = static_cast<i32>(index % heads_of_batch * static_cast<u32>(a.pack_gqa));
    }
    first_row = static_cast<i32>(row_block * block_q);
  }

 private:
  REGARD_DEVICE static u32 blocks_of(u32 rows) { return (rows + block_q - 1) / block_q; }
};

}  // namespace regard
