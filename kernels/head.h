// One (batch, query head) of a call: what kernels need to know about it.
#pragma once

#include "kernels/sequence.h"
#include "kernels/workspace_rows.h"

namespace regard {

struct Head {
  const Arguments& arguments;
  Sequence sequence;
  i64 batch, head, kv_head;

  REGARD_INLINE Head(const Arguments& a, i64 batch_index, i64 head_index)
      : arguments(a),
        sequence(sequence_of(a, batch_index)),
        batch(batch_index),
        head(head_index),
        kv_head(static_cast<u32>(head_index) / (static_cast<u32>(a.hq) / static_cast<u32>(a.hk))) {}

  /// The index of a row in the workspace, and in the results of a part of the keys.
  REGARD_INLINE i64 row_number(i64 row) const {
    return regard::row_number(arguments, sequence, HeadRow{head, row});
  }
  REGARD_INLINE i64 row_of_part(HeadRow head_row, i64 part) const {
    return part * rows_of_part(arguments) + regard::row_number(arguments, sequence, head_row);
  }

  /// Addresses in tensors of `dtype`; `row` counts within the sequence. A HeadRow may be of another query
  /// head with the same K and V.
  template <DType dtype>
  REGARD_INLINE u8* address(const Rows& rows, i64 of_head, i64 memory_row) const {
    return static_cast<u8*>(rows.data) + element_of(rows, batch, of_head, memory_row) * bytes_of<dtype>;
  }
  REGARD_INLINE const u8* q(HeadRow head_row) const {
    return address<config::dtype>(arguments.q, head_row.head, sequence.first_q + head_row.row);
  }
  REGARD_INLINE const u8* q(i64 row) const { return q(HeadRow{head, row}); }
  /// Without pages.
  REGARD_INLINE const u8* k(i64 row) const { return key_address(arguments.k, row); }
  REGARD_INLINE const u8* v(i64 row) const { return key_address(arguments.v, row); }
  REGARD_INLINE const u8* key_address(const Rows& rows, i64 row) const {
    return static_cast<const u8*>(rows.data) +
           element_of(rows, stored_sequence(arguments.cache, batch), kv_head, sequence.first_k + row) *
               bytes_of<config::dtype>;
  }
  REGARD_INLINE u8* o(HeadRow head_row) const {
    return address<config::out>(arguments.o, head_row.head, sequence.first_q + head_row.row);
  }
  REGARD_INLINE u8* o(i64 row) const { return o(HeadRow{head, row}); }
  REGARD_INLINE float* lse(HeadRow head_row) const {
    return row_of<float>(arguments.lse, batch, head_row.head, sequence.first_q + head_row.row);
  }
  REGARD_INLINE float* lse(i64 row) const { return lse(HeadRow{head, row}); }
  REGARD_INLINE float* row_max(HeadRow head_row) const {
    return row_of<float>(arguments.row_max, batch, head_row.head, sequence.first_q + head_row.row);
  }

  REGARD_INLINE float alibi_slope_of(i64 of_head) const {
    return arguments.alibi[batch * arguments.alibi_batch + of_head];
  }
  REGARD_INLINE float alibi_slope() const { return alibi_slope_of(head); }
};

}  // namespace regard
