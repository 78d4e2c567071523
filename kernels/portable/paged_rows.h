// Loads rows of K and V that lie in the pages of a cache. A tile's keys may be in any number of pages, of any
// size: where a key's rows of K and V are stored is found once, by one thread, while the tile before is
// multiplied. Threads that load vectors of these rows read their places from shared memory.
//
// Kernels whose K and V have an 8-bit type of their own load all their keys this way, and convert them to
// operands as they do: dense K and V, cached or not, are pages as long as a sequence.
#pragma once

#include "kernels/head.h"
#include "kernels/portable/key_ranges.h"
#include "kernels/portable/shared_rows.h"

namespace regard {

/// Whether K and V are converted on the way to shared memory.
constexpr bool widens = bytes_of<config::kv> != operand_bytes;
/// Whether keys have factors of their own. Those of K are applied to the scores. Those of V are applied to
/// the weights, except with fp16 operands, whose range the products could exceed: there they are applied to
/// V.
constexpr bool key_factors = config::descale == Descale::token;
constexpr bool scales_v = key_factors && operand == DType::fp16;
constexpr bool scales_p = key_factors && !scales_v;
/// Whether columns of a latent K have factors of their own, by which they are multiplied on the way to shared
/// memory; the columns after V's are operands already.
constexpr bool column_factors = config::descale == Descale::columns;
constexpr bool scales_stored = scales_v || column_factors;
static_assert(!column_factors || (config::k_rope && config::dv % factor_columns == 0));

/// The bytes of a number of `k_rope`, the columns of K that are a separate tensor.
constexpr i32 bytes_of_k_rope = bytes_of<(column_factors ? config::dtype : config::kv)>;
/// Whether a column of K needs no conversion.
REGARD_DEVICE bool is_operand(i32 column) {
  return column_factors && column >= config::dv;
}

/// Where the rows of a key are, in bytes from the first row of their head in page 0. Negative: no row of the
/// block sees the key, and zeros are loaded, as its memory and its page may be anything. `v`: with k_rope,
/// that of the key's row of k_rope.
struct KeyPlace {
  i64 k, v;
};
static_assert(sizeof(KeyPlace) == portable::key_place_bytes);
/// The factors of K and of V, or those of columns.
struct KeyFactors {
  static constexpr i32 count =
      static_cast<i32>(larger<i64>(portable::factors_of_key(key_factors, column_factors, config::dv), 1));
  float number[count];
};

/// The places and factors of a tile's keys, in shared memory.
struct TileKeys {
  KeyPlace* places;
  KeyFactors* factors;
};

/// The rows of a tile of K or of V.
struct PagedSource {
  const u8* rows;  // of a head in page 0
  TileKeys keys;
  bool values, aligned;
  i64 chunk;       // vectorized pages of K: bytes from one group of columns to the next
  const u8* rest;  // the columns of K from dv on, if they are a tensor of their own

  REGARD_DEVICE i64 place(i32 row) const {
    return values && !config::k_rope ? keys.places[row].v : keys.places[row].k;
  }
  /// The address of a column of a row, whose place is given.
  REGARD_DEVICE const u8* at(i32 row, i64 place, i32 column) const {
    if constexpr (config::k_rope) {
      if (column >= config::dv) {
        const i64 of_rest = column - static_cast<i32>(config::dv);
        return rest + larger<i64>(keys.places[row].v, 0) + of_rest * bytes_of_k_rope;
      }
    }
    return rows + larger<i64>(place, 0) + byte_of(column);
  }
  /// The factor of a column, and of its neighbours to the end of the vector.
  REGARD_DEVICE float factor(i32 row, i32 column) const {
    if constexpr (column_factors) return keys.factors[row].number[column / factor_columns];
    if constexpr (scales_v) return values ? keys.factors[row].number[1] : 1.0f;
    return 1.0f;
  }
  /// The offset in bytes of a column, and of its neighbours to the end of the vector.
  REGARD_DEVICE i64 byte_of(i32 column) const {
    constexpr i32 bytes = bytes_of<config::kv>, together = 16 / bytes;
    if constexpr (config::kv_layout == KvLayout::vectorized)
      return values ? column * 16 : column / together * chunk + column % together * bytes;
    return column * bytes;
  }
  REGARD_DEVICE i32 step() const {
    return config::kv_layout == KvLayout::vectorized && values ? 16 : bytes_of<config::kv>;
  }
};

/// K and V of a sequence.
struct PagedKeys {
  const u8 *k, *v;   // of a head in page 0; `v` as in KeyPlace
  const i32* pages;  // of the sequence
  i32 sequence;      // of a dense cache: its only page
  i32 kv_head;
  u32 first;  // the row of its first key
  bool k_aligned, v_aligned;

  PagedKeys() = default;
  REGARD_DEVICE explicit PagedKeys(const Head& head)
      : k(of_head(head.arguments.k, head.kv_head)),
        v(config::k_rope ? of_head<bytes_of_k_rope>(head.arguments.k_rope, head.kv_head)
                         : of_head(head.arguments.v, head.kv_head)),
        pages(pages_of(head.arguments.cache, head.batch)),
        sequence(static_cast<i32>(stored_sequence(head.arguments.cache, head.batch))),
        kv_head(static_cast<i32>(head.kv_head)),
        first(static_cast<u32>(head.sequence.first_k)),
        k_aligned(is_aligned(k, head.arguments.k, head.arguments.cache.k_chunk)),
        v_aligned(config::kv_layout == KvLayout::linear && is_aligned(v, head.arguments.v, 0)) {
    if constexpr (config::k_rope) {  // vectors that cross from one to the other are loaded slowly
      v_aligned = k_aligned;
      k_aligned =
          config::dv % 8 == 0 && k_aligned && is_aligned<bytes_of_k_rope>(v, head.arguments.k_rope, 0);
    }
  }

  /// The source of K or of V, with the places of a tile's keys.
  REGARD_DEVICE PagedSource source(const Arguments& a, const TileKeys& keys, bool values) const {
    const u8* const rows = values && !config::k_rope ? v : k;
    return {rows, keys, values, values ? v_aligned : k_aligned, a.cache.k_chunk * bytes, v};
  }

 private:
  static constexpr i32 bytes = bytes_of<config::kv>;

  template <i32 size = bytes>
  REGARD_DEVICE static const u8* of_head(const Rows& rows, i64 head) {
    return static_cast<const u8*>(rows.data) + head * rows.head * size;
  }
  /// A vector of operands is 16 bytes of memory, or 8, and then it has all its columns.
  template <i32 size = bytes>
  REGARD_DEVICE static bool is_aligned(const u8* first_row, const Rows& rows, i64 chunk) {
    constexpr i32 vector = 16 * size / operand_bytes;
    return (!widens || (config::d % 8 == 0 && config::dv % 8 == 0)) &&
           (reinterpret_cast<u64>(first_row) | static_cast<u64>((rows.batch | rows.row | chunk) * size)) %
                   vector ==
               0;
  }
};

/// Finds the places of a tile's keys in two steps, between which the entries of the page table arrive.
class FindPlaces {
  static constexpr i32 of_thread = (block_k + threads - 1) / threads;
  static constexpr i32 bytes = bytes_of<config::kv>;

 public:
  /// Reads no entry of a page that no row sees.
  REGARD_DEVICE void begin(const Arguments& a, const PagedKeys& keys, const BlockKeyRange& visible, i32 key) {
    const u32 page = static_cast<u32>(a.cache.page);
#pragma unroll
    for (i32 i = 0; i < of_thread; ++i) {
      const i32 at = key + thread() + i * threads;
      pages_[i] = -1;
      if (!visible.sees(at)) continue;
      rows_[i] = keys.first + static_cast<u32>(at);
      if (page == 0) {
        pages_[i] = keys.sequence;
      } else {
        const u32 block = rows_[i] / page;
        rows_[i] -= block * page;
        pages_[i] = global(keys.pages)[block];
      }
    }
  }
  REGARD_DEVICE void end(const Arguments& a, const PagedKeys& keys, const TileKeys& to) const {
#pragma unroll
    for (i32 i = 0; i < of_thread; ++i) {
      const i32 row = thread() + i * threads;
      if (block_k % threads != 0 && row >= block_k) break;
      const i64 page = pages_[i], in_page = rows_[i];
      KeyPlace place = {-1, -1};
      if (page >= 0) place = {(page * a.k.batch + in_page * a.k.row) * bytes, place_of_v(a, page, in_page)};
      to.places[row] = place;
      if constexpr (key_factors || column_factors) {
        KeyFactors factors = {};
        if (page >= 0) {
#pragma unroll
          for (i32 n = 0; n < KeyFactors::count; ++n)
            factors.number[n] = factor_of_key(a, keys.kv_head, page, in_page, n);
        }
        to.factors[row] = factors;
      }
    }
  }

 private:
  REGARD_DEVICE static float factor_of_key(const Arguments& a, i64 kv_head, i64 page, i64 in_page, i32 n) {
    if constexpr (column_factors)
      return global(row_of<const float>(a.descale_k, page, kv_head, in_page))[n];
    else
      return factor_of(n == 0 ? a.descale_k : a.descale_v, page, kv_head, in_page);
  }
  REGARD_DEVICE static i64 place_of_v(const Arguments& a, i64 page, i64 in_page) {
    constexpr i32 together = 16 / bytes;
    if constexpr (config::k_rope) return (page * a.k_rope.batch + in_page * a.k_rope.row) * bytes_of_k_rope;
    i64 row = in_page * a.v.row;
    if constexpr (config::kv_layout == KvLayout::vectorized)
      row = in_page / together * a.cache.v_chunk + in_page % together;
    return (page * a.v.batch + row) * bytes;
  }

  i32 pages_[of_thread];
  u32 rows_[of_thread] = {};
};

/// A vector of operands on its way to shared memory, in the type in which it is stored.
template <DType stored>
struct StoredVector {
  static constexpr bool wider = bytes_of<stored> != operand_bytes;

  u32 words[wider ? 2 : 4];

  /// `present`: how many bytes of it exist, counted as operands.
  REGARD_DEVICE void load(const u8* from, i32 present) {
    if constexpr (wider) {
      const u64 both = present > 0 ? *global(reinterpret_cast<const u64*>(from)) : 0;
      words[0] = static_cast<u32>(both), words[1] = static_cast<u32>(both >> 32);
    } else {
      load_vector(words, from, present);
    }
  }
  REGARD_DEVICE void store(u32 to, float factor) const {
    if constexpr (wider) {
      u32 wide[4];
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        wide[i] =
            widened<stored, operand, scales_stored>(static_cast<u16>(words[i / 2] >> 16 * (i % 2)), factor);
      store_vector(to, wide);
    } else {
      store_vector(to, words);
    }
  }
};

/// Multiplies the columns of a wave by the factors of K or of V.
REGARD_DEVICE void scale_columns(Scores& s, const KeyFactors* of_wave, bool values) {
#pragma unroll
  for (i32 n = 0; n < key_tiles; ++n)
#pragma unroll
    for (i32 i = 0; i < Fragment::width; ++i) {
      const KeyFactors& key =
          of_wave[n * Fragment::columns + Fragment::column() + Fragment::column_offset(i)];
      const float factor = key.number[values ? 1 : 0];
      each_row([&](i32 m, i32 half) { s[m][n].x[half][i] *= factor; });
    }
}

/// Like each_vector, but for keys at any places: function(to, from, bytes, number, row, column).
template <i32 rows, i32 columns, i32 row_bytes, class Function>
REGARD_DEVICE void each_placed_vector(u32 to, const PagedSource& source, const TileBounds& bounds,
                                      Function function) {
  using Dealt = DealtVectors<rows, columns>;
  constexpr i32 per_vector = Dealt::per_vector, across = Dealt::across, rows_together = Dealt::rows_together;
  const i32 row = thread() / across, column = thread() % across * per_vector;
  const i32 columns_left = bounds.end_column - bounds.first_column - column;
  to += shared_offset<row_bytes>(row, column * operand_bytes);
#pragma unroll
  for (i32 i = 0; i < rows; i += rows_together) {
    if (rows % rows_together != 0 && row + i >= rows) break;
    const i64 place = source.place(row + i);
    const u32 row_to = down<row_bytes>(to, i);
#pragma unroll
    for (i32 c = 0; c < columns; c += across * per_vector)
      function(row_to + c * operand_bytes, source.at(row + i, place, bounds.first_column + column + c),
               place < 0 ? 0 : count_there<per_vector>(1, columns_left - c) * operand_bytes,
               i / rows_together * Dealt::columns_of_thread + c / (across * per_vector), row + i,
               bounds.first_column + column + c);
  }
}

/// Like TileCopy, but for keys at any places.
template <i32 rows, i32 columns, i32 row_bytes, bool alone>
class PagedCopy {
  static constexpr i32 count = DealtVectors<rows, columns>::count;
  static constexpr i32 most = widens ? 2 * larger(most_vectors_on_their_way, 8) : most_vectors_on_their_way;
  static constexpr bool through_registers = alone && count <= most;

 public:
  REGARD_DEVICE void begin(u32 to, const PagedSource& source, const TileBounds& bounds) {
    held_ = through_registers && source.aligned;
    if constexpr (column_factors) first_column_ = bounds.first_column;
    if (!source.aligned) {
      load_slowly(to, source, bounds);
      return;
    }
    each_placed_vector<rows, columns, row_bytes>(
        to, source, bounds, [&](u32 to_vector, const u8* from, i32 bytes, i32 i, i32 row, i32 column) {
          if (is_operand(column)) {
            copy_vector(to_vector, from, bytes);
          } else if constexpr (through_registers) {
            held_vectors_[i].load(from, bytes);
          } else if constexpr (widens) {
            StoredVector<config::kv> vector;
            vector.load(from, bytes);
            vector.store(to_vector, source.factor(row, column));
          } else {
            copy_vector(to_vector, from, bytes);
          }
        });
  }
  template <i32 pending>
  REGARD_DEVICE void arrive(u32 to, const PagedSource& source) const {
    wait_for_copies<pending>();
    if constexpr (through_registers) {
      if (held_)
        each_vector<rows, columns, row_bytes, count>(
            to, RowSource(nullptr, 0), {}, [&](u32 to_vector, const u8*, i32, i32 i) {
              if (!is_operand(column_of(i)))
                held_vectors_[i].store(to_vector, source.factor(row_of(i), column_of(i)));
            });
    }
  }

 private:
  /// The row of a thread's i-th vector.
  REGARD_DEVICE static i32 row_of(i32 i) {
    using Dealt = DealtVectors<rows, columns>;
    return thread() / Dealt::across + i / Dealt::columns_of_thread * Dealt::rows_together;
  }
  /// The first column of K of a thread's i-th vector.
  REGARD_DEVICE i32 column_of(i32 i) const {
    using Dealt = DealtVectors<rows, columns>;
    return first_column_ +
           (thread() % Dealt::across + i % Dealt::columns_of_thread * Dealt::across) * Dealt::per_vector;
  }

  /// Loads rows of any alignment number by number: this is rare, so the code is small rather than fast.
  REGARD_DEVICE static void load_slowly(u32 to, const PagedSource& source, const TileBounds& bounds) {
    constexpr i32 per_vector = 16 / operand_bytes, vectors = columns / per_vector;
    constexpr i32 bits = 8 * bytes_of<config::kv>, of_word = 32 / bits;
#pragma unroll 1
    for (i32 i = thread(); i < rows * vectors; i += threads) {
      const i32 row = i / vectors, column = i % vectors * per_vector;
      const i64 place = source.place(row);
      const u8* from = source.at(row, place, bounds.first_column + column);
      const i32 count =
          place < 0 ? 0 : count_there<per_vector>(1, bounds.end_column - bounds.first_column - column);
      const u32 to_vector = to + shared_offset<row_bytes>(row, column * operand_bytes);
      if (is_operand(bounds.first_column + column)) {
        u32 words[4];
        convert_vector(words, from, count);
        store_vector(to_vector, words);
        continue;
      }
      StoredVector<config::kv> vector = {};
#pragma unroll
      for (i32 n = 0; n < per_vector; ++n, from += source.step()) {
        if (n >= count) break;
        if (config::k_rope) from = source.at(row, place, bounds.first_column + column + n);
        u32 number;
        if constexpr (bits == 8)
          number = *global(from);
        else if constexpr (bits == 16)
          number = *global(reinterpret_cast<const u16*>(from));
        else
          number = *global(reinterpret_cast<const u32*>(from));
        vector.words[n / of_word] |= number << n % of_word * bits;
      }
      vector.store(to_vector, source.factor(row, bounds.first_column + column));
    }
  }

  StoredVector<config::kv> held_vectors_[through_registers ? count : 1];
  i32 first_column_ = 0;  // of K, where columns have factors
  bool held_ = false;
};

}  // namespace regard
