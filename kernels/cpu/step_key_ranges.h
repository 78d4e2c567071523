// Which keys of a step the rows of a tile see: on the diagonal, or at the edge of a window, a few
// neighbouring rows together skip the keys that none of them sees.
#pragma once

#include "kernels/cpu/scores.h"
#include "kernels/cpu/values.h"

namespace regard {

/// Rows whose scores skip keys together: one vector of the widest target.
constexpr i64 strip = 16;
constexpr i64 strips = tile / strip;
/// Rows whose products with V skip keys together: those of one register tile, or of one block of the tile
/// unit, whose scores skip them together too.
constexpr i64 group_rows = amx ? 32 : tile_rows;
/// Keys whose weights are stored together.
constexpr i64 p_keys = quads ? 4 : 2;
constexpr i64 row_groups = ceil_divide(tile, group_rows);
static_assert(value_rows<1> == tile_rows || strip % value_rows<1> == 0,
              "a larger tile takes the weights of one strip");

/// The key ranges of one tile in one step, counted from the first key of the step.
class StepKeyRanges {
 public:
  /// Within the keys [begin, end) of the step that starts at `first_key`.
  StepKeyRanges(const TileKeyRanges<tile>& rows, i64 first_key, i64 begin, i64 end) {
    if (rows.sees_all(first_key + begin, first_key + end)) {
      for (Range& span : strips_) span = {begin, end};
      for (Range& span : values) span = depths(begin, end);
      return;
    }
    for (Range& span : strips_) span = {0, 0};
    for (i64 group = 0; group < row_groups; ++group) {
      const i64 row = group * group_rows, last_row = smaller<i64>(row + group_rows, tile) - 1;
      Range keys{0, 0};
      for (i64 i = row; i <= last_row; ++i) {
        const bool sinks = rows.sinks_begin[i] < rows.sinks_end[i];
        const i64 from = sinks ? rows.sinks_begin[i] : rows.window_begin[i];
        const i64 to = larger(rows.sinks_end[i], rows.window_end[i]);
        keys.join({larger(from - first_key, begin), smaller(to - first_key, end)});
      }
      if (amx) keys = {keys.begin / key_step * key_step, round_up(keys.end, key_step)};
      values[group] = depths(keys.begin, keys.end);
      // The product with V takes the weights of all rows of a group, which may be in two strips.
      for (i64 s = row / strip; s <= last_row / strip; ++s) strips_[s].join(keys);
    }
  }

  /// Whole pairs or quads of keys for which a strip has P.
  Range keys_of_p(i64 s) const {
    return {strips_[s].begin / p_keys * p_keys, round_up(strips_[s].end, p_keys)};
  }

  /// Keys that are computed for the rows of a group, if groups are whole strips.
  Range keys_of_group(i64 group) const { return strips_[group * group_rows / strip]; }

  /// The first to the last strip that sees some of these keys.
  Range strips_of(i64 begin, i64 end) const {
    Range seeing{0, 0};
    for (i64 s = 0; s < strips; ++s)
      if (strips_[s].overlaps({begin, end})) seeing.join({s, s + 1});
    return seeing;
  }

  bool all_strips(i64 begin, i64 end) const { return strips_of(begin, end).count() == strips; }

  Range values[row_groups];

 private:
  static Range depths(i64 begin, i64 end) {
    if constexpr (quads) return {begin / 4 * 2, depth(end)};
    return vnni ? Range{begin / 2, ceil_divide(end, 2)} : Range{begin, end};
  }

  Range strips_[strips];
};

}  // namespace regard
