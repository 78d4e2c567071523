// The work left once all blocks of keys are done. The grid: blocks of 64 rows of the gradient of a broadcast
// bias, then one block per head for the gradient of its learned sink.
#include "kernels/cpu/backward_schedule.h"
#include "kernels/cpu/backward_scratch.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/kernel.h"

namespace regard {
namespace {

template <DType dtype>
void round_row(u8* to, const float* from, i64 n) {
  i64 i = 0;
  for (; i + lanes <= n; i += lanes) store_floats<dtype>(to + i * bytes_of<dtype>, load<Floats>(from + i));
  for (; i < n; ++i) store_scalar<dtype>(to, i, from[i]);
}

void store_grad_bias(const CpuBackwardArguments& a, i64 heads, i64 matrix, i64 first) {
  for (i64 row = first; row < smaller(first + rows_per_block, a.sq); ++row) {
    const i64 element = element_of(a.grad_bias, matrix / heads, matrix % heads, row);
    const float* const sums = a.grad_bias_partial + (matrix * a.sq + row) * a.sk;
    with_bias_type(a, [&]<DType dtype>() {
      round_row<dtype>(static_cast<u8*>(a.grad_bias.data) + element * bytes_of<dtype>, sums, a.sk);
    });
  }
}

/// dsink = -sum of exp(sink - LSE) D over all rows: the sink's weight in each row; it has no value vector.
void store_grad_sink(const CpuBackwardArguments& a, i64 head_index) {
  const float sink = a.sink[head_index];
  double sum = 0;
  for (i64 batch = 0; batch < a.b; ++batch) {
    const Head head(a, batch, head_index);
    for (i64 row = 0; row < head.sequence.sq; ++row) {
      // A sink of -infinity has no effect, not even in rows that see nothing.
      const float share = sink == -infinity ? 0.0f : exp2(broadcast((sink - *head.lse(row)) * log2_of_e))[0];
      sum -= static_cast<double>(share) * a.delta[head.row_number(row)];
    }
  }
  a.grad_sink[head_index] = static_cast<float>(sum);
}

}  // namespace
}  // namespace regard

REGARD_KERNEL(REGARD_SYMBOL) {
  using namespace regard;
  (void)scratch;
  const auto& a = static_cast<const CpuBackwardArguments&>(*arguments);
  const i64 chunks = ceil_divide(a.sq, rows_per_block);
  if (a.grad_bias_partial) {
    const i64 batches = a.grad_bias.batch == 0 ? 1 : a.b, heads = a.grad_bias.head == 0 ? 1 : a.hq;
    if (block < batches * heads * chunks)
      return store_grad_bias(a, heads, block / chunks, block % chunks * rows_per_block);
    block -= batches * heads * chunks;
  }

  store_grad_sink(a, block);
}
