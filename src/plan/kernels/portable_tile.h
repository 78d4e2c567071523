// Declarations shared by the host halves of the portable kernels.
#pragma once

#include "kernels/portable/forward_layout.h"
#include "plan/kernel.h"
#include "plan/target.h"

namespace regard {

/// What a kernel's layout depends on, from the halves of its key.
inline portable::TileShape tile_shape_of(const Signature& s, const Algorithm& a, const Target& target) {
  return {.bytes = static_cast<i64>(bytes_of(s.dtype)),
          .d = s.d,
          .dv = s.dv,
          .block_q = a.block_q,
          .block_k = a.block_k,
          .block_d = a.block_d,
          .block_dv = a.block_dv,
          // Registers hold one tile on its way, and shared memory the factors of one.
          .stages = s.kv == s.dtype && s.descale == Descale::none ? a.stages : 1,
          .warps = a.warps,
          .warps_across = a.warps_across,
          .unit = target.wave / 2,
          .staged_bytes = target.has(Feature::mma_layout) ? 0 : 160,
          .place_bytes = s.paged ? portable::key_place_bytes : 0,
          .factor_bytes =
              4 * portable::factors_of_key(s.descale == Descale::token, s.descale == Descale::columns, s.dv),
          .latent = portable::shares_tile(s.latent, s.d)};
}

/// The target of a key, which was found when the key was made.
inline const Target& target_of(const KernelKey& key) {
  return **find_target(key.target);
}

}  // namespace regard
