// What is left when every block of keys has been through. The grid: 64 rows of dK and dV of one K/V head per
// block, where parts of the queries had blocks of their own, then 64 rows of the gradient of a bias that is
// broadcast, then the gradient of one head's learned sink.
#include "kernels/cpu/backward_scratch.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/query_parts.h"

namespace regard {
namespace {

void round_row(u8* to, const float* from, i64 n) {
  i64 i = 0;
  for (; i + lanes <= n; i += lanes)
    store_floats<key::dtype>(to + i * bytes_of<key::dtype>, load<Floats>(from + i));
  for (; i < n; ++i) store_scalar<key::dtype>(to, i, from[i]);
}

/// A row of dK or dV from what `count` parts of the queries have of it, in their order; 0 of none.
void store_sum(u8* to, const float* partial, i64 stride, i64 count, i64 n, float factor) {
  for (i64 i = 0; i < n; i += lanes) {
    Floats sum = count > 0 ? load<Floats>(partial + i) : Floats{};
    for (i64 part = 1; part < count; ++part) sum += load<Floats>(partial + part * stride + i);
    u8* const at = to + i * bytes_of<key::dtype>;
    if (i + lanes <= n)
      store_floats<key::dtype>(at, sum * factor);
    else
      store_floats<key::dtype>(at, sum * factor, n - i);
  }
}

void store_grad_kv(const Arguments& a, const Head& head, i64 first) {
  const Sequence& sequence = head.sequence;
  const i64 parts = parts_of(a, sequence);
  i64 from = 0;
  const auto store = [&](const Rows& to, i64 key, const float* partial, i64 n, float factor) {
    const auto row = [&](i64 part) { return row_of_query_part(a, sequence, part, head.kv_head, key); };
    const i64 columns = padded_columns(n);
    store_sum(head.address<key::dtype>(to, head.kv_head, sequence.first_k + key),
              partial + row(from) * columns, (row(1) - row(0)) * columns, parts - from, n, factor);
  };
  for (i64 key = first; key < smaller(first + rows_per_block, sequence.sk); ++key) {
    // As the block of the grid that has it: of split_keys keys, which are block_k where parts are apart.
    if (key == first || key % a.split_keys == 0)
      from = first_part_that_sees(a, sequence, key / a.split_keys * a.split_keys);
    store(a.grad_k, key, a.grad_k_partial, a.d, a.scale);
    store(a.grad_v, key, a.grad_v_partial, a.dv, 1.0f);
  }
}

void store_grad_bias(const Arguments& a, i64 heads, i64 matrix, i64 first) {
  for (i64 row = first; row < smaller(first + rows_per_block, a.sq); ++row) {
    const i64 element =
        matrix / heads * a.grad_bias.batch + matrix % heads * a.grad_bias.head + row * a.grad_bias.row;
    round_row(static_cast<u8*>(a.grad_bias.data) + element * bytes_of<key::dtype>,
              a.grad_bias_partial + (matrix * a.sq + row) * a.sk, a.sk);
  }
}

/// dsink = -sum of exp(sink - LSE) D over all rows: the sink's share of each row, and it has no value.
void store_grad_sink(const Arguments& a, i64 head_index) {
  const float sink = a.sink[head_index];
  double sum = 0;
  for (i64 batch = 0; batch < a.b; ++batch) {
    const Head head(a, batch, head_index);
    for (i64 row = 0; row < head.sequence.sq; ++row) {
      // A sink of -infinity takes no part, not even in rows that see nothing.
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
  const Arguments& a = *arguments;
  if (a.parts_apart) {
    const i64 chunks = ceil_divide(a.sk, rows_per_block), heads = a.b * a.hk;
    if (block < heads * chunks) {
      const Head head(a, block / chunks / a.hk, block / chunks % a.hk * (a.hq / a.hk));
      return store_grad_kv(a, head, block % chunks * rows_per_block);
    }
    block -= heads * chunks;
  }
  const i64 chunks = ceil_divide(a.sq, rows_per_block);
  if (a.grad_bias_partial) {
    const i64 batches = a.grad_bias.batch == 0 ? 1 : a.b, heads = a.grad_bias.head == 0 ? 1 : a.hq;
    if (block < batches * heads * chunks)
      return store_grad_bias(a, heads, block / chunks, block % chunks * rows_per_block);
    block -= batches * heads * chunks;
  }

  store_grad_sink(a, block);
}
