// What a block of backward.cu keeps in shared memory.
#pragma once

#include "kernels/backward_window.h"
#include "kernels/portable/backward_work.h"
#include "kernels/portable/key_ranges.h"

namespace regard {

/// What a block knows of its keys; in shared memory because the inner loop has no registers for it.
struct BackwardCommon {
  Sequence sequence;
  Window window;
  const u8 *q, *grad_o;  // of query head 0
  i64 padded_row;        // likewise
  PortableBackwardWork work;
  i32 first_row, end_row;  // whole tiles of queries
  i32 start_row;           // with which it starts in each head
};
static_assert(sizeof(BackwardCommon) <= layout.common);

/// K, V, the ring of Q, dO, P, dS, LSE of each tile of the ring, D, what rows see, and the common data.
struct PortableBackwardMemory {
  u8* dynamic;
  u32 keys, values, q, grad_o, p, grad_s, lse, delta;
  RowKeyRanges visible;
  BackwardCommon* common;

  REGARD_DEVICE explicit PortableBackwardMemory(u8* first) : dynamic(first), keys(shared_address(first)) {
    values = keys + layout.keys;
    q = values + layout.values;
    grad_o = q + stages * layout.q;
    p = grad_o + layout.grad_o;
    grad_s = p + layout.p;
    lse = grad_s + layout.p;
    delta = lse + stages * layout.statistics;
    u8* const rest = dynamic + (delta - keys) + layout.statistics;
    visible = {nullptr, reinterpret_cast<RowKeyRange*>(rest)};
    common = reinterpret_cast<BackwardCommon*>(rest + layout.visible);
  }

  REGARD_DEVICE u32 q_in(i32 slot) const { return q + static_cast<u32>(slot * layout.q); }
};

/// A tile of queries of one head; past the last head there is none.
struct HeadTile {
  i32 head, first_row;
};

}  // namespace regard
