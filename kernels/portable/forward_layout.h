// How forward.cu divides its block's shared memory. The plan requests the memory with the same constants.
#pragma once

#include "kernels/arguments.h"
#include "kernels/factor_columns.h"
#include "kernels/inline.h"

namespace regard::portable {

/// The numbers of a tile that its layout depends on. A step of 0 means all columns at once.
struct TileShape {
  i64 bytes;  // of a number of Q, K and V
  i64 d, dv, block_q, block_k;
  i64 block_d, block_dv;  // steps
  i64 stages;
  i64 warps;
  i64 warps_across;  // that share rows, and thus their weights
  i64 unit;          // rows and columns of the smallest product of a wave
  i64 staged_bytes;  // the least of a row of O on its way through shared memory
  i64 place_bytes;   // says where a key is in a paged cache (paged_rows.h); 0: keys are a stride apart
  i64 factor_bytes;  // a key's factors; 0: it has none of its own
  bool latent;       // V is read from the tile of K
};

/// Whether the tile of K is that of V as well, if V is a part of K: where both together would be too large.
/// Elsewhere V is loaded beside K.
constexpr REGARD_INLINE bool shares_tile(bool latent, i64 d) {
  return latent && d > 512;
}

constexpr i64 key_place_bytes = 16;

/// How many factors a key has of its own: one of K and one of V, or one for each 128 columns of K.
constexpr REGARD_INLINE i64 factors_of_key(bool of_keys, bool of_columns, i64 dv) {
  return of_columns ? dv / factor_columns : of_keys ? 2 : 0;
}

/// Where a block keeps Q: in shared memory, whole or the part that is multiplied with K's, or in registers.
enum class QPlace { shared, shared_part, registers };

/// Sizes in bytes. Vectors of eight neighbouring rows are in different banks: rows of K and V that are whole
/// lines of 16-bit operands are swizzled (shared_rows.h), which writes whole lines too; other rows are
/// padded by one vector. Q's always are: it is written once, and takes fewer registers that way.
struct ForwardLayout {
  static constexpr i64 vector = 16, line = 128;

  i64 unit;
  QPlace q_place;
  i64 block_d, block_dv;  // columns of K and V that are loaded at a time, in whole matrix products
  i64 d, dv;              // columns, in whole blocks
  i64 row_of_q, row_of_k, row_of_v, row_of_p;  // from one row to the next
  i64 q, keys, values, p, visible, common;     // of one part
  i64 places, factors;                         // of the keys of two tiles
  i64 stages;
  i64 tiles;  // Q and all of K and V, where O is staged at the end

  constexpr REGARD_INLINE explicit ForwardLayout(const TileShape& tile)
      : unit(tile.unit),
        q_place(place_of_q(tile)),
        block_d(step(tile.block_d, tile.d)),
        block_dv(step(tile.block_dv, tile.dv, tile.warps_across > 1 ? unit * tile.warps_across : unit)),
        d(whole(tile.d, block_d)),
        dv(whole(tile.dv, block_dv)),
        row_of_q((q_place == QPlace::shared ? d : block_d) * operand_bytes(tile.bytes) + vector),
        row_of_k(row(block_d, operand_bytes(tile.bytes))),
        row_of_v(tile.latent ? row_of_k : row(block_dv, operand_bytes(tile.bytes))),
        row_of_p(row(tile.block_k, operand_bytes(tile.bytes))),
        q(q_place == QPlace::registers ? 0 : tile.block_q * row_of_q),
        keys(tile.block_k * row_of_k),
        values(tile.latent ? 0 : tile.block_k * row_of_v),
        p(tile.warps_across > 1 ? tile.block_q * row_of_p : 0),
        visible(tile.block_q * 16),
        common(tile.place_bytes > 0 ? 288 : 224),
        places(2 * tile.block_k * tile.place_bytes),
        factors(2 * tile.block_k * tile.factor_bytes),
        stages(tile.stages > 0 ? tile.stages : 1),
        tiles(q + stages * (keys + values)) {
    const i64 staged = (block_dv < dv ? q : 0) + tile.block_q * tile.staged_bytes;
    if (tiles < staged) tiles = staged;
  }

  /// Waves of 64 lanes have registers for Q, except in fp32, where every lane reads whole rows.
  static constexpr REGARD_INLINE QPlace place_of_q(const TileShape& tile) {
    if (tile.unit < 32 || tile.warps_across > 1) return QPlace::shared;
    if (tile.block_d > 0 && tile.block_d < tile.d) return QPlace::shared_part;
    return tile.bytes <= 2 && (tile.d <= 256 || tile.latent) ? QPlace::registers : QPlace::shared;
  }
  /// The size of the type in which it is multiplied: fp8 as fp16.
  static constexpr REGARD_INLINE i64 operand_bytes(i64 bytes) { return bytes < 2 ? 2 : bytes; }
  static constexpr REGARD_INLINE i64 row(i64 columns, i64 operand_bytes) {
    const bool lines = operand_bytes == 2 && columns * operand_bytes % line == 0;
    return columns * operand_bytes + (lines ? 0 : vector);
  }
  static constexpr REGARD_INLINE i64 whole(i64 columns, i64 block) {
    return (columns + block - 1) / block * block;
  }
  static constexpr REGARD_INLINE i64 step(i64 asked, i64 columns, i64 multiple = 16) {
    return whole(asked > 0 && asked < columns ? asked : columns, multiple);
  }

  constexpr REGARD_INLINE i64 total() const { return tiles + p + visible + common + places + factors; }
};

}  // namespace regard::portable
