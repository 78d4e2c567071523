// The end of a block: rows of O and LSE, or, of one part of the keys, of the workspace.
#pragma once

#include "kernels/portable/scores.h"
#include "kernels/portable/softmax.h"

namespace regard {

/// The columns [first, first + block_dv) of one row.
template <DType dtype>
REGARD_DEVICE void store_row(u8* to, const Fragment (&o)[column_tiles], i32 half, i32 first, float factor) {
  first += Fragment::column();
  const bool pairs = reinterpret_cast<u64>(to) % (2 * bytes_of<dtype>) == 0;
#pragma unroll
  for (i32 c = 0; c < column_tiles; ++c) {
    const i32 column = first + c * Fragment::columns;
    const float x = o[c].x[half][0] * factor, y = o[c].x[half][1] * factor;
    if (pairs && column + 1 < key::dv) {
      store_pair<dtype>(to, column, x, y);
    } else {
      if (column < key::dv) store_element<dtype>(to, column, x);
      if (column + 1 < key::dv) store_element<dtype>(to, column + 1, y);
    }
  }
}

REGARD_DEVICE void store(const Head& head, i32 first_row, i64 split, const RowState& rows, const Output& o,
                         i32 first_column, float natural) {
  const Arguments& a = head.arguments;
  const float factor = a.dropout_scale * descale(head, a.descale_v), sink = head.sink();
  const i32 first = first_row + row_in_tile();
  each_row([&](i32 m, i32 half) {
    const i32 row = first + row_offset(m, half);
    const SoftmaxEnd end = end_softmax(rows.reference[m][half], row_sum(rows.sum[m][half]), natural, sink);
    if (row >= head.sequence.sq) return;
    const bool writes_lse = first_column == 0 && Fragment::first_of_row();
    if (a.splits > 1) {
      const i64 place = head.row_of_part(row, split);
      store_row<DType::fp32>(reinterpret_cast<u8*>(a.partial_o + place * key::dv), o[m], half, first_column,
                             end.inverse * factor);
      if (writes_lse) a.partial_lse[place] = end.lse;
    } else {
      store_row<key::out>(head.o(row), o[m], half, first_column, end.inverse * factor);
      if (writes_lse && a.lse.data) *head.lse(row) = end.lse;
    }
  });
}

}  // namespace regard
