// K and V of a block: rows at a stride, or in the pages of a cache.
#pragma once

#include "kernels/portable/paged_rows.h"

namespace regard {

/// Rows at a stride.
struct StridedKeys {
  RowSource k, v;

  StridedKeys() = default;
  REGARD_DEVICE explicit StridedKeys(const Head& head)
      : k(head.k(0), head.arguments.k.row), v(head.v(0), head.arguments.v.row) {}
  REGARD_DEVICE const RowSource& source(const Arguments&, const TileKeys&, bool values) const {
    return values ? v : k;
  }
};

/// Nothing to find.
struct NoPlaces {
  REGARD_DEVICE void begin(const Arguments&, const StridedKeys&, const BlockKeyRange&, i32) {}
  REGARD_DEVICE void end(const Arguments&, const StridedKeys&, const TileKeys&) const {}
};

template <i32 rows, i32 columns, i32 row_bytes, bool alone>
struct StridedCopy : TileCopy<rows, columns, row_bytes, alone> {
  template <i32 pending>
  REGARD_DEVICE void arrive(u32 to, const RowSource&) const {
    TileCopy<rows, columns, row_bytes, alone>::template arrive<pending>(to);
  }
};

template <bool paged>
struct KeysOf {
  using Keys = StridedKeys;
  using Places = NoPlaces;
  template <i32 rows, i32 columns, i32 row_bytes, bool alone>
  using Copy = StridedCopy<rows, columns, row_bytes, alone>;
};
template <>
struct KeysOf<true> {
  using Keys = PagedKeys;
  using Places = FindPlaces;
  template <i32 rows, i32 columns, i32 row_bytes, bool alone>
  using Copy = PagedCopy<rows, columns, row_bytes, alone>;
};

}  // namespace regard
