// New tokens of a KV cache, and the queries of the same call: the sequence of each, where it is written, and
// its position for rope.
#pragma once

#include "kernels/row_factors.h"
#include "kernels/sequence.h"

namespace regard {

/// A token of packed or dense tensors.
struct Token {
  i64 batch, row;  // in the tensor; packed tensors have one batch
  i64 sequence;    // b: it belongs to none
  i64 index;       // in its sequence
};

/// The sequence of a packed token: the last one that begins at or before it; b if the token is past the last
/// sequence.
REGARD_INLINE i64 sequence_of_token(const i32* offsets, i64 b, i64 token) {
  i64 first = 0, end = b + 1;  // the result is in [first, end)
  while (end - first > 1) {
    const i64 middle = (first + end) / 2;
    if (offsets[middle] <= token)
      first = middle;
    else
      end = middle;
  }
  return first;
}

/// The token of this number among those of all sequences.
REGARD_INLINE Token token_of(const i32* offsets, i64 b, i64 most, i64 number) {
  if (offsets) {
    const i64 sequence = sequence_of_token(offsets, b, number);
    return {0, number, sequence, number - offsets[sequence]};
  }
  const i64 sequence = number / most, index = number % most;
  return {sequence, index, sequence, index};
}

/// How many new tokens there are.
REGARD_INLINE i64 count_of_new_tokens(const Arguments& a) {
  return a.added.total != 0 ? a.added.total : a.b * a.added.most;
}
/// With slots the sequence of a token does not matter.
REGARD_INLINE Token new_token(const Arguments& a, i64 number) {
  if (a.added.slots) return {0, number, 0, number};
  return token_of(a.added.offsets, a.b, a.added.most, number);
}
REGARD_INLINE Token query_token(const Arguments& a, i64 number) {
  return token_of(a.offsets_q, a.b, a.sq, number);
}

/// A row of the cache. A negative batch: none.
struct CacheRow {
  i64 batch, row;  // page or sequence, and the row in it
};

REGARD_INLINE CacheRow row_of_slot(const Arguments& a, i64 number) {
  const i64 slot = a.added.wide_slots ? static_cast<const i64*>(a.added.slots)[number]
                                      : static_cast<const i32*>(a.added.slots)[number];
  const i64 rows = a.cache.page != 0 ? a.cache.page : a.sk;
  if (slot < 0) return {-1, 0};
  return {slot / rows, slot % rows};
}

/// Where a new token is written; nowhere if its slot, length or page is negative, or past the end of the
/// cache.
REGARD_INLINE CacheRow row_of_new_token(const Arguments& a, const Token& token) {
  if (a.added.slots) return row_of_slot(a, token.row);
  if (token.sequence >= a.b) return {-1, 0};
  const i64 before = rows_before<i64>(a, token.sequence), row = before + token.index;
  if (before < 0 || row >= a.sk) return {-1, 0};
  const KeyRun run = key_run(a, Sequence{token.sequence, 0, 0, 0, a.sk}, row);
  return {run.batch, run.row};
}

/// A position beyond the tables takes their nearest row.
REGARD_INLINE i64 row_of_tables(const Arguments& a, i64 position) {
  return larger<i64>(smaller<i64>(position, a.added.rope_rows - 1), 0);
}
/// The position of the first new token of a sequence.
REGARD_INLINE i64 first_position(const Arguments& a, i64 sequence) {
  return a.added.positions ? a.added.positions[sequence * a.added.positions_batch]
                           : larger<i64>(rows_before<i64>(a, sequence), 0);
}
/// The row of the tables that rotates a new key. Only called with rope, for tokens that are written.
REGARD_INLINE i64 rope_row_of_new_token(const Arguments& a, const Token& token) {
  const NewTokens& added = a.added;
  if (added.positions && added.positions_row != 0)
    return row_of_tables(
        a, added.positions[token.batch * added.positions_batch + token.row * added.positions_row]);
  return row_of_tables(a, first_position(a, token.sequence) + token.index);
}
/// With a mask, queries have consecutive positions, from that of the first new token on; without one, all
/// have that position.
REGARD_INLINE i64 rope_row_of_query(const Arguments& a, const Token& token) {
  return row_of_tables(a, first_position(a, token.sequence) + (a.positional ? token.index : 0));
}

/// The first index of the factor for a row of the cache: its sequence or, where each row or page has a
/// factor, the first index of the row.
REGARD_INLINE i64 batch_of_factor(const Arguments& a, const Token& token, const CacheRow& row) {
  return has_row_factors(a) ? row.batch : token.sequence;
}

/// Where the elements of a row of the cache are: runs of `run` columns, which are `step` elements apart,
/// begin `chunk` elements apart.
struct Columns {
  i64 chunk;  // 0: one run
  i32 run, step;

  REGARD_INLINE i64 element(i32 column) const {
    if (chunk == 0) return static_cast<i64>(column) * step;
    return column / run * chunk + column % run * step;
  }
};

/// Vectorized pages keep 16 bytes together: of a key, or of one column of neighbouring rows.
REGARD_INLINE i32 elements_together(const Arguments& a) {
  return 16 / static_cast<i32>(bytes_of_dtype(a.kv));
}
REGARD_INLINE Columns columns_of_k(const Arguments& a) {
  if (a.cache.k_chunk == 0) return {0, a.d, 1};
  return {a.cache.k_chunk, elements_together(a), 1};
}
REGARD_INLINE Columns columns_of_v(const Arguments& a) {
  return {0, a.dv, a.cache.v_chunk == 0 ? 1 : elements_together(a)};
}
/// The offset of a row's first element within its page (or sequence) and head.
REGARD_INLINE i64 first_of_k(const Arguments& a, i64 row) {
  return row * a.k.row;
}
REGARD_INLINE i64 first_of_v(const Arguments& a, i64 row) {
  if (a.cache.v_chunk == 0) return row * a.v.row;
  const i64 together = elements_together(a);
  return row / together * a.cache.v_chunk + row % together;
}

/// Whether V is a part of K. A new token of such a cache is written as two rows: the columns of V, and the
/// others, which rope rotates.
REGARD_INLINE bool has_latent_tokens(const Arguments& a) {
  return a.added.v.data == nullptr;
}
/// Rows of `type` that begin at a column.
REGARD_INLINE Rows rows_from_column(const Rows& rows, i32 column, i32 type) {
  return {static_cast<u8*>(rows.data) + column * bytes_of_dtype(type), rows.batch, rows.head, rows.row};
}
/// The factors from a column on, with descale=columns.
REGARD_INLINE Rows factors_from_column(const Rows& factors, i32 column) {
  return {static_cast<float*>(factors.data) + column / factor_columns, factors.batch, factors.head,
          factors.row};
}
/// Where the columns of K after those of V are.
REGARD_INLINE Rows columns_after_v(const Arguments& a) {
  return a.k_rope.data ? a.k_rope : rows_from_column(a.k, a.dv, a.kv);
}

}  // namespace regard
