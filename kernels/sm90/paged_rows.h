// Where the keys of a turn are in the pages of a KV cache.
#pragma once

#include "kernels/sm90/turn.h"

namespace regard {

struct PagedRows {
  const Arguments& a;
  const Turn& turn;

  struct Place {
    i32 page, row;  // in the page
    i32 count;      // rows of the page that belong to the sequence
  };

  /// Whether any of the keys [begin, end) is visible. Pages left of the window may belong to other sequences.
  REGARD_DEVICE bool needed(i32 begin, i32 end) const {
    return begin < turn.work.sequence.sk && (!windowed || end > turn.first_key || begin < turn.sinks);
  }

  /// The place of a visible key.
  REGARD_DEVICE Place find(i32 key) const {
    const u32 page = static_cast<u32>(a.cache.page), block = static_cast<u32>(key) / page;
    const i32 begin = static_cast<i32>(block * page);
    return {pages_of(a.cache, turn.work.sequence.batch)[block], key - begin,
            min(static_cast<i32>(page), turn.work.sequence.sk - begin)};
  }
};

}  // namespace regard
