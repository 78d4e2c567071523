// Tensors as boxes that the tensor memory unit (TMA) of a Hopper GPU moves. It wants starts and strides in
// whole 16 bytes (CUDA driver API, cuTensorMapEncodeTiled), and so do threads that store 16 bytes at a time.
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

/// The kernel that asks, for its refusals, and the one that takes any tensor.
struct BoxesOf {
  std::string_view kernel, instead;
};

/// Sequences end at lengths of their own, wherever that is in memory.
bool is_ragged(const Problem&);

/// Q and what lies like it; K and what lies like it. A dimension of size 1 gets a stride that TMA takes.
BoxedRows rows_of_queries(const Problem&, const char* name, const Rows&, std::int64_t columns, DType);
BoxedRows rows_of_keys(const Problem&, const char* name, const Rows&, std::int64_t columns, DType);
/// As they are where threads alone store them, and take no steps from row to row of one.
BoxedRows without_map(BoxedRows);

/// What threads that store 16 bytes at a time ask for.
Status aligned(const BoxedRows&, const BoxesOf&);
/// What a tensor map asks for.
Status reachable(const Problem&, const BoxedRows&, const BoxesOf&);

TensorBox box_of(const Problem&, const BoxedRows&, std::int64_t box_rows, std::int64_t box_heads = 1);

}  // namespace regard
