// K and V of a step as fp32 tiles, wherever their rows lie: dense, packed, or in a KV cache.
#pragma once

#include "kernels/cpu/attributes.h"
#include "kernels/cpu/generic_scores.h"

namespace regard::generic {

/// K or V of one head.
struct KeyTensor {
  const Rows &rows, &rest, &factors;
  i64 columns, columns_of_rest;  // the latter are the last ones
  i64 chunk;                     // vectorized pages: elements from one group of 16 bytes to the next; else 0
  bool across_rows;              // whether such a group holds one column of several rows, as in V
};

inline KeyTensor keys_of(const Arguments& a) {
  return {a.k, a.k_rope, a.descale_k, a.d, a.k_rope.data ? a.d - a.dv : 0, a.cache.k_chunk, false};
}
inline KeyTensor values_of(const Arguments& a) {
  return {a.v, a.v, a.descale_v, a.dv, 0, a.cache.v_chunk, true};
}

/// Loads the row `row` of the page or sequence `batch`, times its factors if each row has its own.
inline void load_key(float* to, const Arguments& a, const KeyTensor& tensor, i64 batch, i64 kv_head,
                     i64 row) {
  const i64 together = 16 / bytes_of_dtype(a.kv);
  if (tensor.chunk == 0) {
    const i64 first = tensor.columns - tensor.columns_of_rest;
    load_row(to, address(tensor.rows, a.kv, batch, kv_head, row), a.kv, first);
    const i32 type = type_after_v(a);
    if (tensor.columns_of_rest > 0)
      load_row(to + first, address(tensor.rest, type, batch, kv_head, row), type, tensor.columns_of_rest);
  } else if (tensor.across_rows) {
    const u8* const group = address(tensor.rows, a.kv, batch, kv_head, row % together) +
                            row / together * tensor.chunk * bytes_of_dtype(a.kv);
    for (i64 c = 0; c < tensor.columns; ++c) load_row(to + c, group + c * 16, a.kv, 1);
  } else {
    const u8* const first = address(tensor.rows, a.kv, batch, kv_head, row);
    for (i64 c = 0; c < tensor.columns; c += together)
      load_row(to + c, first + c / together * tensor.chunk * bytes_of_dtype(a.kv), a.kv, together);
  }
  if (!has_row_factors(a) || tensor.factors.data == nullptr) return;
  const float* const factors = row_of<const float>(tensor.factors, batch, kv_head, row);
  const bool of_columns = has_column_factors(a);
  for (i64 c = 0; c < (of_columns ? a.dv : tensor.columns); ++c)
    to[c] *= factors[of_columns ? c / factor_columns : 0];
}

/// tile[key][padded(columns)] of the step at `first_key`. Keys that no row of the tile sees are 0: what is
/// stored there may be NaN, and those left of a window may have no page.
inline void load_keys(float* tile, const QueryRows& query, const KeyTensor& tensor, i64 first_key) {
  const i64 width = GenericLayout::padded(tensor.columns);
  __builtin_memset(tile, 0, static_cast<u64>(tile_keys * width) * 4);
  for (Range seen : seen_keys(query.visible.common, first_key, first_key + tile_keys)) {
    while (!seen.empty()) {
      const KeyRun run = key_run(query.a, query.sequence, seen.begin);
      const i64 count = smaller(run.count, seen.count());
      for (i64 i = 0; i < count; ++i)
        load_key(tile + (seen.begin - first_key + i) * width, query.a, tensor, run.batch, query.kv_head,
                 run.row + i);
      seen.begin += count;
    }
  }
}

}  // namespace regard::generic
