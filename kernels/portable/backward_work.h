// Which keys, head and part of the columns a block of the grid has.
#pragma once

#include "kernels/portable/backward_tile.h"
#include "kernels/portable/die_order.h"

namespace regard {

struct PortableBackwardWork {
  i32 batch, kv_head, first_key, column_part;
  i32 first_head, end_head;  // of the query heads that share the K/V head
  i32 group;                 // how many do
  i32 first_kv_head, end_batch, end_kv_head;

  PortableBackwardWork() = default;

  /// In 32 bits, which hold any grid, because a 64-bit division is a function call.
  REGARD_DEVICE PortableBackwardWork(const BackwardArguments& a, u32 block) {
    const u32 all_heads = static_cast<u32>(a.hk), part = static_cast<u32>(a.part_heads);
    group = static_cast<i32>(static_cast<u32>(a.hq) / all_heads);
    // A block may process all batches or heads, one after the other.
    const bool each_batch = a.bias_in_turn == 0 || a.grad_bias.batch != 0;
    const bool each_head = a.bias_in_turn == 0 || a.grad_bias.head != 0;
    const u32 batches = each_batch ? static_cast<u32>(a.b) : 1, heads = each_head ? all_heads : 1;
    const u32 head_parts = (static_cast<u32>(group) + part - 1) / part;
    const u32 batch_heads = batches * heads * head_parts;
    const u32 key_blocks = (static_cast<u32>(a.sk) + block_k - 1) / block_k;
    if constexpr (target::dies > 1) {
      // Blocks that take turns wait for those before them, which must have started.
      if (!a.turns && dies_are_even(a, heads, target::dies))
        block = in_die_order(block, batch_heads * key_blocks * parts, target::dies);
    }
    column_part = static_cast<i32>(block % parts);
    block /= parts;
    // Under a causal mask the first keys are seen by most rows. They run first, so that none is left at the
    // end.
    const u32 together = smaller(static_cast<u32>(a.side_by_side), batch_heads);
    const u32 first = block / (together * key_blocks) * together,
              here = smaller(together, batch_heads - first);
    block -= first * key_blocks;
    const u32 key_block = block / here, pair = first + block % here, kv_pair = pair / head_parts;
    first_key = static_cast<i32>((a.keys_descend ? key_blocks - 1 - key_block : key_block) * block_k);

    // Each of several dies gets all batches of its heads, because batches may have different lengths.
    batch = static_cast<i32>(target::dies > 1 ? kv_pair % batches : kv_pair / heads);
    kv_head = first_kv_head = static_cast<i32>(target::dies > 1 ? kv_pair / batches : kv_pair % heads);
    end_batch = each_batch ? batch + 1 : static_cast<i32>(a.b);
    end_kv_head = each_head ? kv_head + 1 : static_cast<i32>(all_heads);
    first_head = kv_head * group + static_cast<i32>(pair % head_parts * part);
    end_head = smaller(first_head + static_cast<i32>(part), (kv_head + 1) * group);
  }

  /// The next of those batches and heads, of which a block has whole groups.
  REGARD_DEVICE bool next() {
    if (++kv_head == end_kv_head) {
      if (++batch == end_batch) return false;
      kv_head = first_kv_head;
    }
    first_head = kv_head * group;
    end_head = first_head + group;
    return true;
  }
};

}  // namespace regard
