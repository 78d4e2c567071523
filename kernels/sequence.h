// Where a sequence is stored in memory.
#pragma once

#include "kernels/numbers.h"

namespace regard {

/// Kernels with few registers count in 32 bits.
template <class Integer>
struct BasicSequence {
  Integer batch;
  Integer first_q, first_k;  // first row in memory: the physical offset (varlen), else 0
  Integer sq, sk;            // logical lengths

  /// Key of row 0 on the bottom-right diagonal, from which ALiBi measures regardless of the mask.
  REGARD_INLINE Integer bottom_right() const { return sk - sq; }
};
using Sequence = BasicSequence<i64>;
using Sequence32 = BasicSequence<i32>;

template <class Integer>
REGARD_INLINE Integer logical_length(const i32* lengths, i64 batch, Integer physical) {
  return lengths ? smaller<Integer>(larger<Integer>(lengths[batch], 0), physical) : physical;
}

/// A sequence that fills its tensors.
template <class Integer = i64>
REGARD_INLINE BasicSequence<Integer> whole_sequence(const Arguments& a, i64 batch) {
  return {static_cast<Integer>(batch), 0, 0, static_cast<Integer>(a.sq), static_cast<Integer>(a.sk)};
}

/// The number of a sequence's new tokens.
template <class Integer>
REGARD_INLINE Integer new_tokens_of(const NewTokens& added, i64 batch) {
  return static_cast<Integer>(added.offsets ? added.offsets[batch + 1] - added.offsets[batch] : added.most);
}

/// The number of a sequence's rows in a cache before its new tokens, left padding included; negative if it
/// has no keys and takes no new tokens. Lists of pages count the new tokens already.
template <class Integer>
REGARD_INLINE Integer rows_before(const Arguments& a, i64 batch) {
  const KvCache& cache = a.cache;
  if (cache.page_offsets) {
    const i32 pages = cache.page_offsets[batch + 1] - cache.page_offsets[batch];
    if (pages <= 0) return -1;
    const Integer full = static_cast<Integer>(cache.page) * (pages - 1);
    return full + cache.last_page_lengths[batch] - new_tokens_of<Integer>(a.added, batch);
  }
  return a.lengths_k ? a.lengths_k[batch]
                     : static_cast<Integer>(a.sk) - new_tokens_of<Integer>(a.added, batch);
}

/// Sets the keys of a sequence in a cache: with its new tokens, without its left padding, and at most sk, as
/// a longer one would lead past the page table.
template <class Integer>
REGARD_INLINE void find_cached_keys(const Arguments& a, BasicSequence<Integer>& sequence) {
  const KvCache& cache = a.cache;
  const i64 batch = sequence.batch;
  const Integer before = rows_before<Integer>(a, batch);
  const Integer after = before + new_tokens_of<Integer>(a.added, batch);
  const Integer end = before < 0 ? 0 : smaller<Integer>(after, static_cast<Integer>(a.sk));
  sequence.first_k =
      cache.left_padding ? smaller<Integer>(larger<Integer>(cache.left_padding[batch], 0), end) : 0;
  sequence.sk = end - sequence.first_k;
}

/// A sequence of the batch. Kernels that read no KV caches set `caches` to false.
template <class Integer = i64, bool caches = true>
REGARD_INLINE BasicSequence<Integer> sequence_of(const Arguments& a, i64 batch) {
  BasicSequence<Integer> sequence = whole_sequence<Integer>(a, batch);
  if (a.offsets_q) {
    sequence.first_q = a.offsets_q[batch];
    sequence.sq = a.offsets_q[batch + 1] - a.offsets_q[batch];
  }
  if (a.offsets_k) {
    sequence.first_k = a.offsets_k[batch];
    sequence.sk = a.offsets_k[batch + 1] - a.offsets_k[batch];
  }
  sequence.sq = logical_length<Integer>(a.lengths_q, batch, sequence.sq);
  if (caches && a.cache.present)
    find_cached_keys<Integer>(a, sequence);
  else
    sequence.sk = logical_length<Integer>(a.lengths_k, batch, sequence.sk);
  return sequence;
}

/// The offset of a row's first element. Varlen tensors have a batch stride of 0.
REGARD_INLINE i64 element_of(const Rows& rows, i64 batch, i64 head, i64 row) {
  return batch * rows.batch + head * rows.head + row * rows.row;
}

/// Rows of K and V at a fixed stride: those of one page, or up to the end of a sequence.
struct KeyRun {
  i64 batch;  // the first index of K and V: a page, or a sequence
  i64 row;    // the first row in it
  i64 count;  // rows from there on, at most to the end of the page
};

/// The sequence of K and V in a dense cache.
REGARD_INLINE i64 stored_sequence(const KvCache& cache, i64 batch) {
  return cache.index ? cache.index[batch] : batch;
}

/// The pages of a sequence, in order.
REGARD_INLINE const i32* pages_of(const KvCache& cache, i64 batch) {
  return cache.page_table +
         (cache.page_offsets ? static_cast<i64>(cache.page_offsets[batch]) : batch * cache.page_table_batch);
}

/// The run that begins with row `row` of a sequence, counted from `first_k` on. Reads one entry of the page
/// table.
template <class Integer>
REGARD_INLINE KeyRun key_run(const Arguments& a, const BasicSequence<Integer>& sequence, i64 row) {
  const KvCache& cache = a.cache;
  const i64 batch = sequence.batch, left = sequence.sk - row, stored = sequence.first_k + row;
  if (cache.page == 0) return {stored_sequence(cache, batch), stored, left};
  const i64 block = stored / cache.page, in_page = stored - block * cache.page;
  return {pages_of(cache, batch)[block], in_page, smaller<i64>(cache.page - in_page, left)};
}

/// The factor of one row of one K/V head, or of a head. Null: 1.
REGARD_INLINE float factor_of(const Rows& factors, i64 batch, i64 kv_head, i64 row = 0) {
  if (factors.data == nullptr) return 1.0f;
  return static_cast<const float*>(
      factors.data)[batch * factors.batch + kv_head * factors.head + row * factors.row];
}

/// The address of one row.
template <class Element>
REGARD_INLINE Element* row_of(const Rows& rows, i64 batch, i64 head, i64 row) {
  return static_cast<Element*>(rows.data) + element_of(rows, batch, head, row);
}

/// The gradient of a row's LSE, which is subtracted from D, as d LSE / d S = P. 0 where there is none.
REGARD_INLINE float grad_lse_of(const Arguments& a, i64 batch, i64 head, i64 row) {
  return a.grad_lse.data == nullptr ? 0.0f : *row_of<const float>(a.grad_lse, batch, head, row);
}

}  // namespace regard
