// Tensors as boxes that the tensor memory accelerator (TMA) of a Hopper GPU copies. It requires starts and
// strides in multiples of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled), and so do threads that store
// 16 bytes at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/arguments.h"
#include "plan/tensor_box.h"

namespace regard {

/// A tensor of queries or of keys.
struct BoxedRows {
  const char* name;
  DType dtype;
  Rows rows;
  std::int64_t columns, count, heads, batches;
};

/// The kernel with these requirements, named in its refusals, and the one that takes any tensor.
struct BoxesOf {
  std::string_view kernel, instead;
};

/// Whether sequences end at their own lengths, anywhere in memory.
bool is_ragged(const Problem&);

/// Q and tensors with the same layout; K and tensors with the same layout. A dimension of size 1 gets a
/// stride that TMA accepts.
BoxedRows rows_of_queries(const Problem&, const char* name, const Rows&, std::int64_t columns, DType);
BoxedRows rows_of_keys(const Problem&, const char* name, const Rows&, std::int64_t columns, DType);
/// The same tensor when only threads store it: unlike a ragged map, they never step from row to row if it has
/// one row.
BoxedRows without_map(BoxedRows);

/// The alignment required by threads that store 16 bytes at a time.
Status aligned(const BoxedRows&, const BoxesOf&);
/// The requirements of a tensor map.
Status reachable(const Problem&, const BoxedRows&, const BoxesOf&);

TensorBox box_of(const Problem&, const BoxedRows&, std::int64_t box_rows, std::int64_t box_heads = 1);

}  // namespace regard
