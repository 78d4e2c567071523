// The map of tiles of a mask that is a function, against its bits: both are written by a plan's first stage.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "engine/bind.h"
#include "kernels/tile_map.h"
#include "plan/function_bits.h"
#include "plan/plan.h"
#include "problem/problem.h"

namespace regard::test {

/// Rows or keys that a sequence has, by the offsets and lengths of a call.
inline std::int64_t length_of(const regard_arguments& given, regard_role offsets, regard_role lengths,
                              std::int64_t batch, std::int64_t longest) {
  const auto* const first = static_cast<const std::int32_t*>(given.tensor[offsets].data);
  const auto* const logical = static_cast<const std::int32_t*>(given.tensor[lengths].data);
  const std::int64_t physical = first != nullptr ? first[batch + 1] - first[batch] : longest;
  return logical != nullptr ? std::clamp<std::int64_t>(logical[batch], 0, physical) : physical;
}

/// The state of a tile by its bits.
inline TileState state_of(const u32* bits, i64 pitch, i64 rows, i64 keys) {
  bool any = false, all = true;
  for (i64 row = 0; row < rows; ++row)
    for (i64 key = 0; key < keys; ++key) {
      const bool seen = (bits[row * pitch + key / 32] >> key % 32 & 1) != 0;
      any |= seen;
      all &= seen;
    }
  return !any ? unseen_tile : all ? whole_tile : mixed_tile;
}

inline TileState state_of(const TileLines& lines, i32 at) {
  return lines.whole(at, at + 1) ? whole_tile : lines.first_seen(at, at + 1) == at ? mixed_tile : unseen_tile;
}

/// Tiles of a plan that has run in this workspace, with tensors in host memory. Returns an empty string if
/// the map is right, or if there is none. Sequences of a cache are left out, as their lengths are not in one
/// tensor.
inline std::string map_mistakes(const Plan& plan, const regard_arguments& given, void* workspace) {
  const Problem& p = plan.problem;
  if (plan.bits == WorkspaceLayout::none || is_cache(p)) return {};
  Arguments a = constants(plan);
  set_written_bits(plan, workspace, a);
  for (i64 b = 0; b < (a.bits.batch != 0 ? p.b : 1); ++b)
    for (i64 h = 0; h < (a.bits.head != 0 ? p.hq : 1); ++h) {
      const TileMap map = tile_map_of(a, b, h);
      const u32* const bits = static_cast<const u32*>(a.bits.data) + b * a.bits.batch + h * a.bits.head;
      const i64 sq = length_of(given, REGARD_OFFSETS_Q, REGARD_LENGTHS_Q, b, p.sq),
                sk = length_of(given, REGARD_OFFSETS_K, REGARD_LENGTHS_K, b, p.sk);
      for (i64 row = 0; row < sq; row += map_tile)
        for (i64 key = 0; key < sk; key += map_tile) {
          const i32 r = static_cast<i32>(row), k = static_cast<i32>(key);
          const TileState expected =
              state_of(bits + row * a.bits.row + key / 32, a.bits.row, std::min<i64>(map_tile, sq - row),
                       std::min<i64>(map_tile, sk - key));
          const TileState by_row = state_of(map.of_rows(r, r + 1), k),
                          by_key = state_of(map.of_keys(k, k + 1), r);
          if (by_row != expected || by_key != expected)
            return fmt::format(
                "the map of sequence {}, head {} has {} and {} for the tile at row {}, key {}, and "
                "its bits {}",
                b, h, +by_row, +by_key, row, key, +expected);
        }
    }
  return {};
}

}  // namespace regard::test
