// Where the vectors of a row are in shared memory, so that reads of several rows meet no bank conflicts.
#pragma once

#include "kernels/machine/thread.h"
#include "kernels/portable/forward_layout.h"

namespace regard {

/// Rows of whole lines are swizzled: a vector's position in its line is its own number exclusive-or its
/// row's number, because eight lanes at a time read one vector of eight rows each.
template <i32 row_bytes>
constexpr bool swizzled = row_bytes % portable::ForwardLayout::line == 0;

constexpr REGARD_INLINE i32 swizzle_of(i32 row) {
  return row % 8 * 16;
}

/// The offset of a vector in a tile; tiles start at a line boundary.
template <i32 row_bytes>
REGARD_DEVICE u32 shared_offset(i32 row, i32 byte) {
  return static_cast<u32>(row * row_bytes + (swizzled<row_bytes> ? byte ^ swizzle_of(row) : byte));
}
/// From a vector's offset to the same one `rows` rows further, provided that the numbers of both rows share
/// no bits.
template <i32 row_bytes>
REGARD_DEVICE u32 down(u32 offset, i32 rows) {
  return (swizzled<row_bytes> ? offset ^ swizzle_of(rows) : offset) + static_cast<u32>(rows * row_bytes);
}
/// From a vector's offset to the one `bytes` further in its row, provided that `bytes` shares no bits with
/// its position in the line, except for the swizzle.
template <i32 row_bytes>
REGARD_DEVICE u32 along(u32 offset, i32 bytes) {
  constexpr i32 line = portable::ForwardLayout::line;
  return swizzled<row_bytes> ? (offset ^ bytes % line) + bytes / line * line : offset + bytes;
}

}  // namespace regard
