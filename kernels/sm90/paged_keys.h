// Tiles of K or V whose rows are in pages, loaded by TMA: each box is a part of one page.
#pragma once

#include "kernels/sm90/paged_rows.h"
#include "kernels/sm90/ptx/tma.h"

namespace regard {

/// The ragged map (plan/kernels/sm90_boxes.cpp) treats each page as a sequence: rows past the last key become
/// zeros, whatever the page holds there.
struct PagedKeys {
  const TensorMap& map;
  i32 rows_per_page;  // in memory, from one page to the next
  i32 box_rows;
  PagedRows paged;

  /// By a whole warp: each thread loads one box, of all columns. `full` expects `bytes`.
  template <i32 box_columns>
  REGARD_DEVICE void load(u32 to, i32 bytes, const Barrier& full, i32 first_key) const {
    static_assert(block_k / Sm90ForwardLayout::least_box_k <= wave);
    const i32 first_row = threadIdx.x % wave * box_rows, key = first_key + first_row;
    if (first_row >= block_k) return;
    const bool needed = paged.needed(key, key + box_rows);
    // A page without a visible key is not read: its entry of the table may be invalid.
    const PagedRows::Place place = needed ? paged.find(key) : PagedRows::Place{};
#pragma unroll 1
    for (i32 part = 0; part < bytes / (block_k * box_bytes); ++part)
      load_ragged_box(to + (part * block_k + first_row) * box_bytes, map, full, part * box_columns, place.row,
                      place.page * rows_per_page, place.count, paged.turn.kv_head);
  }
};

}  // namespace regard
