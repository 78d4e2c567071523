// The rows of K and V that a step reads, wherever and in whatever type they are stored: contiguous or in
// pages, in the type of Q or in an 8-bit one.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/head.h"
#include "kernels/factor_columns.h"

namespace regard {

/// Whether a row is scattered over groups of 16 bytes.
constexpr bool vectorized_pages = config::paged && config::kv_layout == KvLayout::vectorized;
/// Whether each row of K and V, or each page, has its own factor.
constexpr bool row_factors = config::descale == Descale::token;
/// Whether each 128 neighbouring columns of a row of a latent K have their own factor; the columns after V's
/// have none, and are in Q's type.
constexpr bool column_factors = config::descale == Descale::columns;
constexpr DType type_of_k_rope = column_factors ? config::dtype : config::kv;

/// Calls use(key, run, count) for some keys, run by run; `count` keys from `key` on are the first
/// of the run. Entries of the page table are read for these keys alone.
template <class Use>
REGARD_INLINE void for_each_run(const Head& head, const SeenKeys& keys, const Use& use) {
  const KvCache& cache = head.arguments.cache;
  for (const Range& range : keys) {
    if (range.empty()) continue;
    KeyRun run = key_run(head.arguments, head.sequence, range.begin);
    if constexpr (!config::paged) {
      use(range.begin, run, range.count());
    } else {  // only the first run needs a division
      const i32* page = pages_of(cache, head.batch) + (head.sequence.first_k + range.begin) / cache.page;
      for (i64 key = range.begin; key < range.end; run = {*++page, 0, cache.page}) {
        const i64 count = smaller(run.count, range.end - key);
        use(key, run, count);
        key += count;
        if (key == range.end) break;  // the next entry of the table may be invalid, or past its end
      }
    }
  }
}

/// The first row of a run.
template <DType dtype = config::kv>
REGARD_INLINE const u8* row_of_run(const Head& head, const Rows& rows, const KeyRun& run) {
  constexpr i64 size = bytes_of<dtype>;
  return row_of<u8>(Rows{rows.data, rows.batch * size, rows.head * size, rows.row * size}, run.batch,
                    head.kv_head, run.row);
}

/// Stores the columns of V in a row of K, times their factors, in Q's type.
REGARD_INLINE void scale_key(u8* to, const u8* from, const float* factors) {
  for (i64 first = 0; first < config::dv; first += factor_columns) {
    const Floats factor = broadcast(factors[first / factor_columns]);
    for (i64 c = first; c < first + factor_columns; c += lanes)
      store_floats<config::dtype>(to + c * bytes_of<config::dtype>,
                                  load_floats<config::kv>(from + c * bytes_of<config::kv>) * factor);
  }
}

/// Copies a row of K whose last columns are a separate tensor to contiguous memory: as it is stored or, if
/// columns have factors, in Q's type.
REGARD_INLINE void copy_key_in_parts(u8* to, const Head& head, const KeyRun& run, i64 i) {
  constexpr i64 size = bytes_of<type_of_k_rope>;
  const Arguments& a = head.arguments;
  const KeyRun row{run.batch, run.row + i, 1};
  const u8* const from = row_of_run(head, a.k, row);
  if constexpr (column_factors)
    scale_key(to, from, row_of<const float>(a.descale_k, row.batch, head.kv_head, row.row));
  else
    __builtin_memcpy(to, from, config::dv * size);
  __builtin_memcpy(to + config::dv * size, row_of_run<type_of_k_rope>(head, a.k_rope, row),
                   (config::d - config::dv) * size);
}

/// Copies a row of n numbers of K from vectorized pages; `first` is its first group of 16 bytes.
template <i64 n>
REGARD_INLINE void copy_scattered_key(u8* to, const Head& head, const u8* first) {
  constexpr i64 bytes = n * bytes_of<config::kv>;
  for (i64 byte = 0; byte < bytes; byte += 16)
    __builtin_memcpy(to + byte, first + byte / 16 * head.arguments.cache.k_chunk * bytes_of<config::kv>, 16);
}

/// The same of V, where a group holds one column of several rows.
template <i64 n>
REGARD_INLINE void copy_scattered_value(u8* to, const Head& head, const KeyRun& run, i64 i) {
  constexpr i64 size = bytes_of<config::kv>, together = 16 / size;
  const i64 row = run.row + i, group = row / together;
  const u8* const first = row_of_run(head, head.arguments.v, {run.batch, row % together, 1}) +
                          group * head.arguments.cache.v_chunk * size;
  for (i64 c = 0; c < n; ++c) __builtin_memcpy(to + c * size, first + c * 16, size);
}

/// The factors of the keys of a step, if each row has its own: 1 for keys that no row sees, as what is stored
/// for them may be NaN.
template <i64 keys>
struct RowFactors {
  static constexpr i64 capacity = keys + 2 * lanes;
  float k[row_factors ? capacity : 1], v[row_factors ? capacity : 1];

  REGARD_NOINLINE void find(const Head& head, i64 first_key, const SeenKeys& seen) {
    if constexpr (row_factors) {
      for (i64 i = 0; i < capacity; ++i) k[i] = v[i] = 1.0f;
      for_each_run(head, seen, [&](i64 key, const KeyRun& run, i64 count) {
        load(k + (key - first_key), head, head.arguments.descale_k, run, count);
        load(v + (key - first_key), head, head.arguments.descale_v, run, count);
      });
    }
  }

 private:
  static void load(float* to, const Head& head, const Rows& factors, const KeyRun& run, i64 count) {
    if (factors.data == nullptr) return;
    const float* from = row_of<const float>(factors, run.batch, head.kv_head, run.row);
    for (i64 i = 0; i < count; ++i, from += factors.row) to[i] = *from;
  }
};

/// The factor of all of K or V of a head.
REGARD_INLINE float factor_of_head(const Head& head, const Rows& factors) {
  return row_factors || column_factors ? 1.0f : factor_of(factors, head.batch, head.kv_head);
}

/// n numbers of a cache in Q's type, which can represent every 8-bit number.
template <i64 n>
REGARD_INLINE void convert_cached(u8* to, const u8* from) {
  constexpr i64 to_bytes = bytes_of<config::dtype>, from_bytes = bytes_of<config::kv>;
  if constexpr (config::kv == config::dtype) {
    __builtin_memcpy(to, from, n * to_bytes);
  } else {
    i64 i = 0;
    for (; i + lanes <= n; i += lanes)
      store_floats<config::dtype>(to + i * to_bytes, load_floats<config::kv>(from + i * from_bytes));
    for (; i < n; ++i) store_scalar<config::dtype>(to, i, load_scalar<config::kv>(from, i));
  }
}

/// K and V of the keys `seen` as rows of Q's type, one after the other from the step's first key on; the
/// other rows of the step's `count` become 0: they may have no page, and what is stored for them may be NaN.
/// A latent K has V in it.
REGARD_NOINLINE inline void gather_keys(u8* k, u8* v, const Head& head, i64 first_key, i64 count,
                                        const SeenKeys& seen) {
  constexpr i64 k_bytes = config::d * bytes_of<config::dtype>, v_bytes = config::dv * bytes_of<config::dtype>;
  const Arguments& a = head.arguments;
  i64 done = first_key;  // keys before it have been written
  const auto clear_up_to = [&](i64 key) {
    if (key <= done) return;
    __builtin_memset(k + (done - first_key) * k_bytes, 0, (key - done) * k_bytes);
    if constexpr (!config::latent)
      __builtin_memset(v + (done - first_key) * v_bytes, 0, (key - done) * v_bytes);
  };
  for_each_run(head, seen, [&](i64 key, const KeyRun& run, i64 rows) {
    clear_up_to(key);
    done = key + rows;
    const u8* from_k = row_of_run(head, a.k, run);
    const u8* from_v = row_of_run(head, a.v, run);
    u8 *to_k = k + (key - first_key) * k_bytes, *to_v = v + (key - first_key) * v_bytes;
    for (i64 i = 0; i < rows; ++i, to_k += k_bytes, to_v += v_bytes) {
      if constexpr (vectorized_pages) {
        u8 row_k[config::d * bytes_of<config::kv>], row_v[config::dv * bytes_of<config::kv>];
        copy_scattered_key<config::d>(row_k, head, from_k);
        copy_scattered_value<config::dv>(row_v, head, run, i);
        convert_cached<config::d>(to_k, row_k);
        convert_cached<config::dv>(to_v, row_v);
      } else {
        if constexpr (column_factors) {
          copy_key_in_parts(to_k, head, run, i);
        } else if constexpr (config::k_rope) {
          u8 row_k[config::d * bytes_of<config::kv>];
          copy_key_in_parts(row_k, head, run, i);
          convert_cached<config::d>(to_k, row_k);
        } else {
          convert_cached<config::d>(to_k, from_k);
        }
        if constexpr (!config::latent) convert_cached<config::dv>(to_v, from_v);
        from_v += a.v.row * bytes_of<config::kv>;
      }
      from_k += a.k.row * bytes_of<config::kv>;
    }
  });
  clear_up_to(first_key + count);
}

}  // namespace regard
