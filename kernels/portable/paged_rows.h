// Loads rows of K and V that lie in the pages of a cache. A tile's keys may be in any number of pages, of any
// size: where a key is stored is found once, by one thread, for its row of K and that of V, while the tile
// before is multiplied. Threads that load vectors of these rows read their places from shared memory.
#pragma once

#include "kernels/head.h"
#include "kernels/portable/key_ranges.h"
#include "kernels/portable/shared_rows.h"

namespace regard {

/// Where the rows of a key are, in bytes from the first row of their head in page 0. Negative: no row of the
/// block sees the key, and zeros are loaded; its memory and its page may be anything.
struct KeyPlace {
  i64 k, v;
};
static_assert(sizeof(KeyPlace) == portable::key_place_bytes);

/// The rows of a tile of K or of V.
struct PagedSource {
  const u8* rows;     // of a head in page 0
  const i64* places;  // of the tile's first key, in K or in V
  bool aligned;

  REGARD_DEVICE i64 place(i32 row) const {
    return places[row * static_cast<i32>(sizeof(KeyPlace) / sizeof(i64))];
  }
};

/// K and V of a sequence in pages.
struct PagedKeys {
  const u8 *k, *v;   // of a head in page 0
  const i32* pages;  // of the sequence
  u32 first;         // the row of its first key
  bool k_aligned, v_aligned;

  PagedKeys() = default;
  REGARD_DEVICE explicit PagedKeys(const Head& head)
      : k(of_head(head.arguments.k, head.kv_head)),
        v(of_head(head.arguments.v, head.kv_head)),
        pages(pages_of(head.arguments.cache, head.batch)),
        first(static_cast<u32>(head.sequence.first_k)),
        k_aligned(is_aligned(k, head.arguments.k)),
        v_aligned(is_aligned(v, head.arguments.v)) {}

  /// One of both, with the places of a tile.
  REGARD_DEVICE PagedSource source(const KeyPlace* places, bool values) const {
    return {values ? v : k, values ? &places->v : &places->k, values ? v_aligned : k_aligned};
  }

 private:
  static constexpr i32 bytes = bytes_of<config::dtype>;

  REGARD_DEVICE static const u8* of_head(const Rows& rows, i64 kv_head) {
    return static_cast<const u8*>(rows.data) + kv_head * rows.head * bytes;
  }
  REGARD_DEVICE static bool is_aligned(const u8* first, const Rows& rows) {
    return operand == config::dtype &&
           (reinterpret_cast<u64>(first) | static_cast<u64>((rows.batch | rows.row) * bytes)) % 16 == 0;
  }
};

/// Finds the places of a tile's keys, in two steps: between them, entries of the page table are on their way.
class FindPlaces {
  static constexpr i32 of_thread = (block_k + threads - 1) / threads;

 public:
  /// Reads no entry of a page that no row sees.
  REGARD_DEVICE void begin(const Arguments& a, const PagedKeys& keys, const BlockKeyRange& visible, i32 key) {
    const u32 page = static_cast<u32>(a.cache.page);
#pragma unroll
    for (i32 i = 0; i < of_thread; ++i) {
      const i32 at = key + thread() + i * threads;
      pages_[i] = -1;
      if (!visible.sees(at)) continue;
      const u32 stored = keys.first + static_cast<u32>(at), block = stored / page;
      rows_[i] = stored - block * page;
      pages_[i] = global(keys.pages)[block];
    }
  }
  REGARD_DEVICE void end(const Arguments& a, KeyPlace* places) const {
    constexpr i64 bytes = bytes_of<config::dtype>;
#pragma unroll
    for (i32 i = 0; i < of_thread; ++i) {
      const i32 row = thread() + i * threads;
      if (block_k % threads != 0 && row >= block_k) break;
      const i64 page = pages_[i], in_page = rows_[i];
      places[row] = page < 0 ? KeyPlace{-1, -1}
                             : KeyPlace{(page * a.k.batch + in_page * a.k.row) * bytes,
                                        (page * a.v.batch + in_page * a.v.row) * bytes};
    }
  }

 private:
  i32 pages_[of_thread];
  u32 rows_[of_thread] = {};
};

/// function(to, from, bytes, number): as each_vector.
template <i32 rows, i32 columns, i32 row_bytes, class Function>
REGARD_DEVICE void each_placed_vector(u32 to, const PagedSource& source, const TileBounds& bounds,
                                      Function function) {
  using Dealt = DealtVectors<rows, columns>;
  constexpr i32 per_vector = Dealt::per_vector, across = Dealt::across, rows_together = Dealt::rows_together;
  const i32 row = thread() / across, column = thread() % across * per_vector;
  const i32 columns_left = bounds.end_column - bounds.first_column - column;
  const u8* const of_column = source.rows + (bounds.first_column + column) * operand_bytes;
  to += shared_offset<row_bytes>(row, column * operand_bytes);
#pragma unroll
  for (i32 i = 0; i < rows; i += rows_together) {
    if (rows % rows_together != 0 && row + i >= rows) break;
    const i64 place = source.place(row + i);
    const u8* const from = of_column + larger<i64>(place, 0);
    const u32 row_to = down<row_bytes>(to, i);
#pragma unroll
    for (i32 c = 0; c < columns; c += across * per_vector)
      function(row_to + c * operand_bytes, from + c * operand_bytes,
               place < 0 ? 0 : count_there<per_vector>(1, columns_left - c) * operand_bytes,
               i / rows_together * Dealt::columns_of_thread + c / (across * per_vector));
  }
}

/// As TileCopy.
template <i32 rows, i32 columns, i32 row_bytes, bool alone>
class PagedCopy {
  static constexpr i32 count = DealtVectors<rows, columns>::count;
  static constexpr bool through_registers = alone && count <= most_vectors_on_their_way;

 public:
  REGARD_DEVICE void begin(u32 to, const PagedSource& source, const TileBounds& bounds) {
    held_ = through_registers && source.aligned;
    if (!source.aligned) {
      load_slowly(to, source, bounds);
      return;
    }
    each_placed_vector<rows, columns, row_bytes>(to, source, bounds,
                                                 [&](u32 to_vector, const u8* from, i32 bytes, i32 i) {
                                                   if constexpr (through_registers)
                                                     load_vector(words_[i], from, bytes);
                                                   else
                                                     copy_vector(to_vector, from, bytes);
                                                 });
  }
  template <i32 pending>
  REGARD_DEVICE void arrive(u32 to) const {
    wait_for_copies<pending>();
    if constexpr (through_registers) {
      if (held_)
        each_vector<rows, columns, row_bytes, count>(
            to, RowSource(nullptr, 0), {},
            [&](u32 to_vector, const u8*, i32, i32 i) { store_vector(to_vector, words_[i]); });
    }
  }

 private:
  /// At any alignment: rare, and small rather than fast.
  REGARD_DEVICE static void load_slowly(u32 to, const PagedSource& source, const TileBounds& bounds) {
    constexpr i32 per_vector = 16 / operand_bytes, vectors = columns / per_vector;
#pragma unroll 1
    for (i32 i = thread(); i < rows * vectors; i += threads) {
      const i32 row = i / vectors, column = i % vectors * per_vector;
      const i64 place = source.place(row);
      const u8* const from = source.rows + larger<i64>(place, 0);
      u32 words[4];
      convert_vector(
          words, from + (bounds.first_column + column) * bytes_of<config::dtype>,
          place < 0 ? 0 : count_there<per_vector>(1, bounds.end_column - bounds.first_column - column));
      store_vector(to + shared_offset<row_bytes>(row, column * operand_bytes), words);
    }
  }

  u32 words_[through_registers ? count : 1][4];
  bool held_ = false;
};

}  // namespace regard
