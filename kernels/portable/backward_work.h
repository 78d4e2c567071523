// Which keys, head and part of the columns a block of the grid has.
#pragma once

#include "kernels/portable/backward_tile.h"
#include "kernels/portable/backward_window.h"

namespace regard {

struct Work {
  i32 batch, kv_head, first_key, column_part;
  i32 first_head, end_head;  // of the query heads that share the K/V head
  i32 end_batch, end_kv_head;

  /// In 32 bits, which hold any grid: a division in 64 is a call.
  REGARD_DEVICE Work(const BackwardArguments& a, u32 block) {
    column_part = static_cast<i32>(block % parts);
    block /= parts;
    // Batches and heads that one block goes through, one after the other.
    const bool all_batches = a.bias_in_turn && a.grad_bias.batch == 0;
    const bool all_heads = a.bias_in_turn && a.grad_bias.head == 0;
    const u32 batches = all_batches ? 1 : static_cast<u32>(a.b),
              heads = all_heads ? 1 : static_cast<u32>(a.hk);
    const u32 group = static_cast<u32>(a.hq) / static_cast<u32>(a.hk);
    const u32 head_parts = (group + static_cast<u32>(a.part_heads) - 1) / static_cast<u32>(a.part_heads);
    const u32 pairs = batches * heads * head_parts;
    const u32 key_blocks = (static_cast<u32>(a.sk) + block_k - 1) / block_k;
    // Under a causal mask the first keys are seen by most rows. They go first, so that none is left at the
    // end.
    const u32 together = smaller(static_cast<u32>(a.side_by_side), pairs);
    const u32 first = block / (together * key_blocks) * together, here = smaller(together, pairs - first);
    block -= first * key_blocks;
    u32 pair = first + block % here, key_block = block / here;
    if (a.keys_descend) key_block = key_blocks - 1 - key_block;
    first_key = static_cast<i32>(key_block * block_k);

    const i32 head_part = static_cast<i32>(pair % head_parts);
    pair /= head_parts;
    batch = static_cast<i32>(pair / heads);
    kv_head = static_cast<i32>(pair % heads);
    end_batch = all_batches ? static_cast<i32>(a.b) : batch + 1;
    end_kv_head = all_heads ? static_cast<i32>(a.hk) : kv_head + 1;
    set_heads(a, head_part);
  }

  /// The next of those batches and heads.
  REGARD_DEVICE bool next(const BackwardArguments& a) {
    if (++kv_head == end_kv_head) {
      if (++batch == end_batch) return false;
      kv_head = a.bias_in_turn && a.grad_bias.head == 0 ? 0 : kv_head - 1;
    }
    set_heads(a, 0);
    return true;
  }

 private:
  REGARD_DEVICE void set_heads(const BackwardArguments& a, i32 head_part) {
    const i32 group = static_cast<i32>(a.hq / a.hk), part = static_cast<i32>(a.part_heads);
    first_head = kv_head * group + head_part * part;
    end_head = smaller(first_head + part, (kv_head + 1) * group);
  }
};

}  // namespace regard
