// Where the vectors of a row are in shared memory, so that reads of several rows meet no bank conflicts.
#pragma once

#include "kernels/machine/thread.h"
#include "kernels/portable/forward_layout.h"

namespace regard {

/// Rows of whole lines are swizzled.
template <i32 row_bytes>
constexpr bool swizzled = row_bytes % portable::ForwardLayout::line == 0;

/// The bytes within which a vector moves: a line or, if it takes two lines to be in all banks, both.
template <i32 row_bytes>
constexpr i32 swizzle_span = target::banks_64 && row_bytes % 256 == 0 ? 256 : portable::ForwardLayout::line;

/// Where tiles begin: a vector is moved within its span by an exclusive-or with its address.
constexpr i32 tile_alignment = target::banks_64 ? 256 : portable::ForwardLayout::line;

/// A vector's position in its span is its own number exclusive-or that of its row, in vectors of 16 bytes. It
/// is linear: for rows whose numbers share no bits, the sum has the exclusive-or of both.
template <i32 row_bytes>
constexpr REGARD_INLINE i32 swizzle_of(i32 row) {
  // Eight lanes at a time read one vector of eight rows each.
  if constexpr (!target::banks_64) return row % 8 * 16;
  // 16 lanes at a time read one vector of 16 rows each, and 32 lanes 64 bytes of four rows each. Neighbouring
  // rows of an odd number of lines are in different halves of the banks as they are.
  const i32 of_four = swizzle_span<row_bytes> == 256 ? row % 4 : row % 4 / 2;
  return (of_four * 4 + row / 4 % 4) * 16;
}

/// The offset of a vector in a tile; tiles start at tile_alignment.
template <i32 row_bytes>
REGARD_DEVICE u32 shared_offset(i32 row, i32 byte) {
  return static_cast<u32>(row * row_bytes + (swizzled<row_bytes> ? byte ^ swizzle_of<row_bytes>(row) : byte));
}
/// From a vector's offset to the one `rows` rows and `bytes` further, provided that the numbers of both rows
/// share no bits, nor `bytes` and its position in the span, except for the swizzle. The constants are added
/// after the exclusive-or: instructions add them, and few addresses are kept in registers.
template <i32 row_bytes>
REGARD_DEVICE u32 moved(u32 offset, i32 rows, i32 bytes) {
  constexpr i32 span = swizzle_span<row_bytes>;
  if constexpr (!swizzled<row_bytes>) return offset + static_cast<u32>(rows * row_bytes + bytes);
  return (offset ^ (swizzle_of<row_bytes>(rows) ^ bytes % span)) +
         static_cast<u32>(rows * row_bytes + bytes / span * span);
}
/// The same vector `rows` rows further.
template <i32 row_bytes>
REGARD_DEVICE u32 down(u32 offset, i32 rows) {
  return moved<row_bytes>(offset, rows, 0);
}
/// The vector `bytes` further in its row.
template <i32 row_bytes>
REGARD_DEVICE u32 along(u32 offset, i32 bytes) {
  return moved<row_bytes>(offset, 0, bytes);
}

}  // namespace regard
