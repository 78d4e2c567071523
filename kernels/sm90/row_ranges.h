// Ranges of keys that the caller gives for each row (Arguments::ranges): what a block's rows see then.
#pragma once

#include "kernels/cuda/warp.h"
#include "kernels/window.h"

namespace regard {

/// What a row sees of the block's keys: its window and, to the left of it, sink tokens.
struct RangedRow {
  Range32 window;
  Range32 sinks;

  REGARD_DEVICE RangedRow(const Range32& range, const Window32& all, i32 row) : window(all.keys_of(row)) {
    sinks = all.sinks_beside(window);
    window = {max(window.begin, range.begin), min(window.end, range.end)};
    sinks = {max(sinks.begin, range.begin), min(sinks.end, range.end)};
  }
};

/// The range of a row, counted from a key. Rows past the last one repeat it.
REGARD_DEVICE Range32 range_of_row(const Arguments& a, const Sequence32& s, i32 first_key, i32 row) {
  const i32* range = a.ranges + s.batch * a.ranges_batch + 2 * (i64{s.first_q} + min(row, s.sq - 1));
  return {max(range[0], 0) - first_key, min(max(range[1], 0), s.sk) - first_key};
}

/// The least and the greatest edges of the windows of some rows, in any order, and the end of their sinks.
struct RowsWindow {
  Range32 top, bottom;
  i32 sinks;

  REGARD_DEVICE bool empty() const { return bottom.end <= top.begin; }
  REGARD_DEVICE i32 end_of_sinks(const Window32&) const { return sinks; }
};

/// Those of `count` rows from `first_row` on, by a whole warp. Rows past the last one are ignored.
REGARD_DEVICE RowsWindow rows_window_of(const Arguments& a, const Sequence32& sequence, i32 first_key,
                                        i32 first_row, i32 count, const Window32& window) {
  constexpr i32 farthest = 0x3fffffff;
  RowsWindow rows{{farthest, farthest}, {0, 0}, 0};
  const i32 end_row = min(first_row + count, window.rows);
#pragma unroll 1
  for (i32 row = first_row + static_cast<i32>(threadIdx.x % wave); row < end_row; row += wave) {
    const RangedRow seen(range_of_row(a, sequence, first_key, row), window, row);
    rows.top.end = min(rows.top.end, seen.window.end);
    rows.bottom.begin = max(rows.bottom.begin, seen.window.begin);
    if (!seen.sinks.empty()) rows.sinks = max(rows.sinks, seen.sinks.end);
    if (seen.window.empty()) continue;
    rows.top.begin = min(rows.top.begin, seen.window.begin);
    rows.bottom.end = max(rows.bottom.end, seen.window.end);
  }
#pragma unroll
  for (i32 lanes = 1; lanes < wave; lanes *= 2) {
    const auto other = [lanes](i32 x) { return __shfl_xor_sync(whole_warp, x, lanes); };
    rows.top = {min(rows.top.begin, other(rows.top.begin)), min(rows.top.end, other(rows.top.end))};
    rows.bottom = {max(rows.bottom.begin, other(rows.bottom.begin)),
                   max(rows.bottom.end, other(rows.bottom.end))};
    rows.sinks = max(rows.sinks, other(rows.sinks));
  }
  return rows;
}

}  // namespace regard
