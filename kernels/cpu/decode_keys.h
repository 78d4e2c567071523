// Where the decode kernel finds the rows of K and V of a step, and those of the next one, which it
// prefetches.
#pragma once

#include "kernels/cpu/cached_keys.h"
#include "kernels/cpu/decode_rows.h"

namespace regard {

/// Whether rows of K are copied first, as a row is in several parts.
constexpr bool copies_keys = vectorized_pages || config::k_rope;

/// Rows a fixed distance apart.
struct StridedRows {
  const u8* first;
  i64 stride;  // bytes
  REGARD_INLINE const u8* row(i64 key) const { return first + key * stride; }
  /// The row that is prefetched while `key` is in use; it need not exist.
  REGARD_INLINE const u8* ahead(i64 key) const { return row(key + rows_ahead); }
  /// The rows from row `key` on.
  REGARD_INLINE StridedRows after(i64 key) const { return {row(key), stride}; }
  /// Whether rows are contiguous.
  REGARD_INLINE bool together(i64 row_bytes) const { return stride == row_bytes; }
  /// Bytes from each of `count` rows to the next; 1 if they differ.
  REGARD_INLINE i64 distance(i64, i64) const { return stride; }
};

/// Rows at any addresses, and those that are prefetched while they are in use.
struct ListedRows {
  const u8 *const *rows, *const *next;
  REGARD_INLINE const u8* row(i64 key) const { return rows[key]; }
  REGARD_INLINE const u8* ahead(i64 key) const { return next[key]; }
  REGARD_INLINE ListedRows after(i64 key) const { return {rows + key, next + key}; }
  REGARD_INLINE bool together(i64) const { return false; }
  REGARD_INLINE i64 distance(i64 key, i64 count) const {
    const i64 apart = rows[key + 1] - rows[key];
    bool same = true;
    for (i64 i = 1; i < count; ++i) same &= rows[key + i] - rows[key + i - 1] == apart;
    return same ? apart : 1;
  }
};

/// K and V of dense and packed sequences, and of a dense cache.
class StridedKeys {
 public:
  StridedKeys(const Head& head, u8*) {
    const Arguments& a = head.arguments;
    const KeyRun run = key_run(a, head.sequence, 0);
    k = {row_of_run(head, a.k, run), a.k.row * bytes_of<config::kv>};
    v = {row_of_run(head, a.v, run), a.v.row * bytes_of<config::kv>};
    first_k_ = k.first;
    first_v_ = v.first;
  }

  REGARD_INLINE void start_step(const Head&, const CommonKeys&, i64 first_key, i64) {
    k.first = first_k_ + first_key * k.stride;
    v.first = first_v_ + first_key * v.stride;
  }

  StridedRows k, v;

 private:
  const u8 *first_k_, *first_v_;
};

/// K and V in pages, or K in two tensors: a list of addresses for each step. Keys that no row sees are a row
/// of zeros: they may have no page, and what is stored for them may be NaN.
class PagedKeys {
 public:
  PagedKeys(const Head&, u8* memory) : memory_(memory) {}

  /// Lists the rows of the step that begins at `first_key`; the keys end at `end`.
  void start_step(const Head& head, const CommonKeys& common, i64 first_key, i64 end) {
    now_ = !now_;
    if (next_step_ != first_key) list<copies_keys>(head, common, steps_[now_], first_key, end);
    next_step_ = first_key + rows_ahead;
    if constexpr (!vectorized_pages) list<false>(head, common, steps_[!now_], next_step_, end);
    if constexpr (copies_keys) next_step_ = -1;  // there is memory for one step
    k = {steps_[now_].k, steps_[!now_].k};
    v = {steps_[now_].v, steps_[!now_].v};
  }

  ListedRows k, v;

 private:
  struct Step {
    const u8 *k[config::block_k], *v[config::block_k];
  };
  static constexpr i64 k_bytes = config::d * bytes_of<row_type>, v_bytes = config::dv * bytes_of<row_type>;
  alignas(64) static constexpr u8 zeros[larger(k_bytes, v_bytes)] = {};

  /// Lists the rows of a step; `copies`: rows of K are copied first. Without it the list is for prefetching.
  template <bool copies>
  REGARD_NOINLINE void list(const Head& head, const CommonKeys& common, Step& step, i64 first_key, i64 end) {
    i64 listed = 0;
    const auto list_zeros = [&](i64 before) {
      for (; listed < before; ++listed) step.k[listed] = step.v[listed] = zeros;
    };
    const SeenKeys seen = seen_keys(common, first_key, smaller(first_key + config::block_k, end));
    for_each_run(head, seen, [&](i64 key, const KeyRun& run, i64 count) {
      const Arguments& a = head.arguments;
      const i64 first = key - first_key;
      list_zeros(first);
      listed = first + count;
      if constexpr (vectorized_pages) {
        for (i64 i = 0; i < count; ++i) {
          u8 *const k = memory_ + (first + i) * k_bytes, *const v = memory_ + config::block_k * k_bytes +
                                                                    (first + i) * v_bytes;
          copy_scattered_key<config::d>(k, head, row_of_run(head, a.k, {run.batch, run.row + i, 1}));
          copy_scattered_value<config::dv>(v, head, run, i);
          step.k[first + i] = k;
          step.v[first + i] = v;
        }
      } else if constexpr (config::k_rope && copies) {
        for (i64 i = 0; i < count; ++i) {
          u8* const k = memory_ + (first + i) * k_bytes;
          copy_key_in_parts(k, head, run, i);
          step.k[first + i] = step.v[first + i] = k;  // V is the first columns of K
        }
      } else {
        const u8 *k = row_of_run(head, a.k, run), *v = row_of_run(head, a.v, run);
        const i64 k_row = a.k.row * bytes_of<config::kv>, v_row = a.v.row * bytes_of<config::kv>;
        for (i64 i = first; i < first + count; ++i, k += k_row, v += v_row) {
          step.k[i] = k;
          step.v[i] = v;
        }
      }
    });
    list_zeros(config::block_k);
  }

  u8* memory_;
  Step steps_[2];
  bool now_ = false;
  i64 next_step_ = -1;
};

template <bool paged>
struct DecodeKeysOf {
  using type = StridedKeys;
};
template <>
struct DecodeKeysOf<true> {
  using type = PagedKeys;
};
/// Whether rows are found by a list of addresses.
constexpr bool lists_keys = config::paged || config::k_rope;
using DecodeKeys = DecodeKeysOf<lists_keys>::type;

}  // namespace regard
