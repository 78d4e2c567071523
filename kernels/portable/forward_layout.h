// How forward.cu divides its block's shared memory. The plan asks for as much with the same constants.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard::portable {

/// Sizes in bytes. Vectors of eight neighbouring rows lie in different banks: rows of K and V that are whole
/// lines of 16-bit operands are swizzled (tile.h), which writes whole lines too; other rows are padded by one
/// vector. Q's always are: it is written once, and takes fewer registers so.
struct ForwardLayout {
  static constexpr i64 vector = 16, line = 128;

  i64 block_d, block_dv;  // columns of K and V that are there at a time, in whole matrix products
  i64 d, dv;              // columns, in whole blocks
  i64 row_of_q, row_of_k, row_of_v, row_of_p;  // from one row to the next
  i64 q, keys, values, p, visible, common;     // of one part
  i64 stages;

  /// `bytes`: of a number of Q, K and V. A step of 0 is all at once. `across`: waves that share rows, and
  /// with them their weights.
  constexpr REGARD_INLINE ForwardLayout(i64 bytes, i64 dim, i64 dim_v, i64 block_q, i64 block_k, i64 step_d,
                                        i64 step_dv, i64 pipeline, i64 across)
      : block_d(step(step_d, dim)),
        block_dv(step(step_dv, dim_v, across > 1 ? 16 * across : 16)),
        d(whole(dim, block_d)),
        dv(whole(dim_v, block_dv)),
        row_of_q(d * operand_bytes(bytes) + vector),
        row_of_k(row(block_d, operand_bytes(bytes))),
        row_of_v(row(block_dv, operand_bytes(bytes))),
        row_of_p(row(block_k, operand_bytes(bytes))),
        q(block_q * row_of_q),
        keys(block_k * row_of_k),
        values(block_k * row_of_v),
        p(across > 1 ? block_q * row_of_p : 0),
        visible(block_q * 16),
        common(224),
        stages(pipeline > 0 ? pipeline : 1) {}

  /// As it is multiplied: fp8 as fp16.
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

  constexpr REGARD_INLINE i64 total() const { return q + stages * (keys + values) + p + visible + common; }
};

}  // namespace regard::portable
