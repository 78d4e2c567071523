// D = rowsum(dO * O) - dLSE, which is subtracted from each row of dP: 64 rows of one head per block. The
// first block of a K/V head also resets the progress counters of the main kernel.
#include "kernels/cpu/backward_order.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/kernel.h"

namespace regard {
namespace {

float row_sum_of_products(const u8* a, const u8* b, i64 n) {
  constexpr i64 bytes_a = bytes_of<config::dtype>, bytes_b = bytes_of<config::out>;
  Floats sums{};
  i64 i = 0;
  for (; i + lanes <= n; i += lanes)
    sums += load_floats<config::dtype>(a + i * bytes_a) * load_floats<config::out>(b + i * bytes_b);
  if (i < n)
    sums +=
        load_floats<config::dtype>(a + i * bytes_a, n - i) * load_floats<config::out>(b + i * bytes_b, n - i);
  float sum = 0;
  for (int lane = 0; lane < lanes; ++lane) sum += sums[lane];
  return sum;
}

}  // namespace
}  // namespace regard

REGARD_KERNEL(REGARD_SYMBOL) {
  using namespace regard;
  (void)scratch;
  const auto& a = static_cast<const CpuBackwardArguments&>(*arguments);
  const i64 chunks = ceil_divide(a.sq, rows_per_block);
  const Head head(a, block / (chunks * a.hq), block / chunks % a.hq);
  if (block % chunks == 0 && head.head % (a.hq / a.hk) == 0)
    __builtin_memset(a.progress + part_progress(a, head.batch, head.kv_head, 0), 0,
                     a.query_parts * a.key_blocks * progress_bytes);
  const i64 first = block % chunks * rows_per_block, end = smaller(first + rows_per_block, head.sequence.sq);
  for (i64 row = first; row < end; ++row) {
    const u8* const grad_o = head.address<config::dtype>(a.grad_o, head.head, head.sequence.first_q + row);
    a.delta[head.row_number(row)] = row_sum_of_products(grad_o, head.o(row), a.dv) -
                                    grad_lse_of(a, head.batch, head.head, head.sequence.first_q + row);
  }
}
