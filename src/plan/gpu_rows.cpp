#include "plan/gpu_rows.h"

#include <algorithm>

#include "plan/stage.h"

namespace regard {

bool positions_hide_nothing(const Problem& p) {
  return mask_hides_nothing(p) && !has_own_lengths(p);
}

bool every_row_sees_all_keys(const Problem& p) {
  return positions_hide_nothing(p) && !p.bits && !p.ranges;
}

std::int64_t batch_heads_side_by_side(const Problem& p, std::int64_t cache_bytes) {
  const std::int64_t pair =
      product({std::max<std::int64_t>(p.sk, 1), p.d + p.dv, static_cast<std::int64_t>(bytes_of(p.dtype))});
  const std::int64_t kv_heads = std::max<std::int64_t>(cache_bytes / pair, 1);
  return std::min(product({kv_heads, p.hq / p.hk}), std::max<std::int64_t>(product({p.b, p.hq}), 1));
}

std::int64_t pairs_together(std::int64_t most, std::int64_t pairs, int dies) {
  if (dies == 1 || pairs == 0 || pairs % dies != 0)
    return std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(pairs, 1));
  std::int64_t together = std::clamp<std::int64_t>(most / dies, 1, pairs / dies);
  while (pairs / dies % together != 0) --together;
  return together;
}

std::int64_t parts_of_long_rows(const Problem& p) {
  // Matrix instructions add up 16 16-bit numbers before they add to a sum, fp32 numbers are added one by
  // one, and for 8-bit types Hopper's keep fewer digits (docs/hopper.md).
  constexpr std::int64_t of_fp32 = 1 << 13, of_16_bits = 1 << 16, of_8_bits = 1 << 14;
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  const std::int64_t bytes = bytes_of(p.dtype);
  const std::int64_t most_keys = bytes == 4 ? of_fp32 : bytes == 2 ? of_16_bits : of_8_bits;
  if (p.splits != 0 || p.batch_invariant || most_keys_of_row(p) <= most_keys) return 1;
  const std::int64_t of_part = product({std::max<std::int64_t>(p.hq, 1), query_tokens(p), p.dv + 1, 4});
  const std::int64_t fit = most_bytes / std::max<std::int64_t>(of_part, 1);
  const std::int64_t parts = std::clamp<std::int64_t>(fit, 1, ceil_divide(p.sk, most_keys));
  // Parts that contain everything that a row sees, under a window, would make no sum shorter.
  return ceil_divide(p.sk, parts) < most_keys_of_row(p) ? parts : 1;
}

}  // namespace regard
