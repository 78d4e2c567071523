// The type and the layout of an operand of c += A B in shared memory.
#pragma once

#include "kernels/numbers.h"

namespace regard {

/// The type in which Q, K, V and the weights are multiplied: fp8 as fp16, which represents it exactly.
constexpr DType operand = bytes_of<config::dtype> == 1 ? DType::fp16 : config::dtype;
constexpr i32 operand_bytes = bytes_of<operand>;

/// Whether rows of Q, K and V consist of whole vectors of 16 bytes.
constexpr bool whole_vectors = config::d * operand_bytes % 16 == 0 && config::dv * operand_bytes % 16 == 0;

/// Of a product: how many steps along the sum are unrolled, if all may be.
constexpr i32 all_steps = 1 << 30;

/// The order in which the numbers of a sum meet, the same for both operands: that of memory, or that in which
/// a thread has P after the product before.
enum class SumOrder { memory, p };

/// Rows of `bytes`. By default, A has the rows of the sums and B their columns as its rows in memory, and the
/// summed dimension is along the columns. `transposed`: the other way round.
template <i32 bytes, bool is_transposed, SumOrder sum_order = SumOrder::memory>
struct SharedOperand {
  static constexpr i32 row_bytes = bytes;
  static constexpr bool transposed = is_transposed;
  static constexpr SumOrder order = sum_order;
};

}  // namespace regard
