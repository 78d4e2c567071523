// O = O * rescale + P V for the few query rows of a decode kernel, with V read in place and each number
// loaded once. O's columns stay in load_columns' order until the end (store_columns).
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/decode_amx.h"
#include "kernels/cpu/decode_keys.h"
#include "kernels/cpu/decode_layout.h"

namespace regard {

constexpr DecodeLayout layout({.vnni = vnni,
                               .d = config::d,
                               .dv = config::dv,
                               .pack_gqa = config::pack_gqa,
                               .block_k = config::block_k,
                               .scattered_bytes = copies_keys ? bytes_of<row_type> : 0,
                               .tiles = uses_tiles,
                               .latent = config::latent});

template <i64 rows>
struct DecodeValues {
  float* output;   // [row][width]
  const float* p;  // operands: [key or pair of keys][row]
  decltype(DecodeKeys::v) values;
  SeenKeys seen;         // counted from the step's first key; the others, which have no weight, may be NaN
  const float* rescale;  // per row

  static constexpr i64 width = layout.output_stride;
  static constexpr int tile_height = machine.by_element && rows >= 8 ? 8 : rows < 4 ? rows : 4;
  /// A single row needs more than four sums, or each waits for the previous addition.
  static constexpr int tile_parts =
      (rows == 1 ? 2 : 1) * (machine.by_element ? (tile_height == 8 ? 2 : 4) : tile_vectors) / column_vectors;

  void add() const {
    const float* factors = rescale;
    for (const Range& range : seen)
      for (i64 first = range.begin / ways * ways; first < range.end; first += slice()) {
        const Range keys{larger(first, range.begin), smaller(first + slice(), range.end)};
        i64 part = 0;
        for (; part + tile_parts <= ColumnParts::count; part += tile_parts)
          add_parts<tile_parts>(keys, part, factors);
        constexpr int rest = static_cast<int>(ColumnParts::count % tile_parts);
        if constexpr (rest != 0) add_parts<rest>(keys, part, factors);
        factors = nullptr;
      }
  }

 private:
  template <int parts>
  void add_parts(Range keys, i64 part, const float* factors) const {
    add_tile<parts, true>(keys, 0, part, factors);
    for (int row = tile_height; row < rows; row += tile_height)
      add_tile<parts, false>(keys, row, part, factors);
  }

  template <int parts, bool first_use>
  REGARD_OPTIMIZE void add_tile(Range keys, int row, i64 part, const float* factors) const {
    constexpr int vectors = parts * column_vectors;
    RegisterTile<tile_height, vectors> sums;
    float* address = output + row * width + part * part_numbers;
    sums.load_from(address, width);
    if (factors) sums.scale_rows(factors + row);
    i64 key = keys.begin;
    auto v = values.after(key);
    const float* p_of_keys = p + key / ways * rows + row;
    if (key % ways != 0) {  // the first of the pair has no weight
      add_keys<true>(sums, p_of_keys, v.row(0), v.row(0), part);
      ++key;
      v = v.after(1);
      p_of_keys += rows;
    }
    for (; key + ways <= keys.end; key += ways, v = v.after(ways), p_of_keys += rows) {
      if constexpr (first_use && !config::latent) fetch_ahead<parts>(v, part);  // those of K are on their way
      add_keys<true>(sums, p_of_keys, v.row(0), v.row(ways - 1), part);
    }
    if (key < keys.end) add_keys<false>(sums, p_of_keys, v.row(0), nullptr, part);
    sums.store_to(address, width);
  }

  template <bool both, int vectors>
  REGARD_INLINE void add_keys(RegisterTile<tile_height, vectors>& sums, const float* p_of_keys, const u8* v,
                              const u8* next, i64 part) const {
    Floats columns[vectors / column_vectors][column_vectors];
    REGARD_UNROLL
    for (int i = 0; i < vectors / column_vectors; ++i) load_columns<both>(columns[i], v, next, part + i);
    if constexpr (machine.by_element && tile_height % lanes == 0) {
      Floats in_turn[vectors];
      REGARD_UNROLL
      for (int i = 0; i < vectors; ++i) in_turn[i] = columns[i / column_vectors][i % column_vectors];
      return sums.add_step(p_of_keys, in_turn);
    }
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
  REGARD_INLINE void fetch_ahead(const decltype(DecodeKeys::v)& v, i64 part) const {
    REGARD_UNROLL
    for (int way = 0; way < ways; ++way) {
      const u8* from = v.ahead(way) + ColumnParts::first(part) * bytes_of<row_type>;
      REGARD_UNROLL
      for (i64 byte = 0; byte < parts * ColumnParts::bytes; byte += 64) __builtin_prefetch(from + byte, 0, 2);
    }
  }

  /// A tile of sums takes some columns of V. Contiguous rows are read in slices, all columns of one slice
  /// before the next, since reading memory in order is faster; each slice costs loading and storing the
  /// sums.
  i64 slice() const {
    const bool sliced = ColumnParts::count > tile_parts && values.together(ColumnParts::row_bytes);
    return sliced ? smaller<i64>(32, config::block_k) : config::block_k;
  }
};

}  // namespace regard
