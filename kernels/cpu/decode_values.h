// O = O * rescale + P V for the few query rows of a decode kernel, with V read in place and each number
// loaded once. O's columns stay in load_columns' order until the end (store_columns).
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/decode_layout.h"
#include "kernels/cpu/decode_rows.h"

namespace regard {

constexpr DecodeLayout layout({.vnni = vnni,
                               .d = config::d,
                               .dv = config::dv,
                               .pack_gqa = config::pack_gqa,
                               .block_k = config::block_k});

template <i64 rows>
struct DecodeValues {
  float* output;   // [row][width]
  const float* p;  // operands: [key or pair of keys][row]
  const u8* values;
  i64 stride;  // bytes from key to key
  i64 count;
  const float* rescale;  // per row

  static constexpr i64 width = layout.output_stride;
  static constexpr int tile_height = rows < 4 ? rows : 4;
  /// A single row needs more than four sums, or each waits for the previous addition.
  static constexpr int tile_parts = (rows == 1 ? 2 : 1) * tile_vectors / column_vectors;

  void add() const {
    for (i64 first = 0; first < count; first += slice()) {
      i64 part = 0;
      for (; part + tile_parts <= ColumnParts::count; part += tile_parts) add_parts<tile_parts>(first, part);
      constexpr int rest = static_cast<int>(ColumnParts::count % tile_parts);
      if constexpr (rest != 0) add_parts<rest>(first, part);
    }
  }

 private:
  template <int parts>
  void add_parts(i64 first, i64 part) const {
    add_tile<parts, true>(first, 0, part);
    for (int row = tile_height; row < rows; row += tile_height) add_tile<parts, false>(first, row, part);
  }

  template <int parts, bool first_use>
  REGARD_OPTIMIZE void add_tile(i64 first, int row, i64 part) const {
    constexpr int vectors = parts * column_vectors;
    RegisterTile<tile_height, vectors> sums;
    float* address = output + row * width + part * part_numbers;
    sums.load_from(address, width);
    if (rescale && first == 0) sums.scale_rows(rescale + row);
    const float* p_of_keys = p + first / ways * rows + row;
    const u8* v = values + first * stride;
    const i64 end = smaller(first + slice(), count);
    for (i64 key = first; key + ways <= end; key += ways, v += ways * stride, p_of_keys += rows) {
      if constexpr (first_use) fetch_ahead<parts>(v, part);
      add_keys<true>(sums, p_of_keys, v, part);
    }
    if (end % ways != 0) add_keys<false>(sums, p_of_keys, v, part);
    sums.store_to(address, width);
  }

  template <bool both, int vectors>
  REGARD_INLINE void add_keys(RegisterTile<tile_height, vectors>& sums, const float* p_of_keys, const u8* v,
                              i64 part) const {
    Floats columns[vectors / column_vectors][column_vectors];
    REGARD_UNROLL
    for (int i = 0; i < vectors / column_vectors; ++i) load_columns<both>(columns[i], v, stride, part + i);
    REGARD_UNROLL
    for (int r = 0; r < tile_height; ++r) {
      const Floats weight = broadcast(p_of_keys[r]);
      REGARD_UNROLL
      for (int i = 0; i < vectors; ++i)
        sums.sum[r][i] =
            multiply_add(sums.sum[r][i], weight, columns[i / column_vectors][i % column_vectors]);
    }
  }

  /// Prefetches the same numbers of later keys.
  template <int parts>
  REGARD_INLINE void fetch_ahead(const u8* v, i64 part) const {
    const u8* from = v + rows_ahead * stride + ColumnParts::first(part) * bytes_of<config::dtype>;
    REGARD_UNROLL
    for (int way = 0; way < ways; ++way) {
      REGARD_UNROLL
      for (i64 byte = 0; byte < parts * ColumnParts::bytes; byte += 64)
        __builtin_prefetch(from + way * stride + byte, 0, 2);
    }
  }

  /// A tile of sums takes some columns of V. Contiguous rows are read in slices, all columns of one slice
  /// before the next, since reading memory in order is faster; each slice costs loading and storing the
  /// sums.
  i64 slice() const {
    const bool sliced = ColumnParts::count > tile_parts && stride == ColumnParts::row_bytes;
    return sliced ? smaller<i64>(32, config::block_k) : config::block_k;
  }
};

}  // namespace regard
