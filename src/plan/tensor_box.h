// A tensor as described by a tensor map: boxes of rows that one GPU instruction moves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "kernels/arguments.h"
#include "problem/problem.h"

namespace regard {

/// What the driver needs to know. Strides in bytes, from the second dimension on.
struct TensorMapShape {
  std::uint32_t rank;
  std::array<std::uint64_t, 5> sizes;
  std::array<std::uint64_t, 4> strides;
  std::array<std::uint32_t, 5> box;
};

struct TensorBox {
  const char* name = "";  ///< of the tensor, for messages
  Rows rows{};
  std::int64_t columns = 0, count = 0, heads = 0, batches = 0;
  std::int64_t box_rows = 0, box_heads = 0;
  DType dtype{};
  bool ragged = false;                                  ///< rows that end at a sequence's own length
  TensorMapShape (*shape)(const TensorBox&) = nullptr;  ///< as its kernel reads coordinates

  friend bool operator==(const TensorBox& a, const TensorBox& b) {
    const auto all = [](const TensorBox& x) {
      return std::tie(x.rows.data, x.rows.batch, x.rows.head, x.rows.row, x.columns, x.count, x.heads,
                      x.batches, x.box_rows, x.box_heads, x.dtype, x.ragged, x.shape);
    };
    return all(a) == all(b);
  }
};

/// In the order of the kernel's parameters.
struct TensorBoxes {
  std::array<TensorBox, 4> box{};
  std::size_t count = 0;
};

}  // namespace regard
