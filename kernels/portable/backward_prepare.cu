// The stage before the gradients: for each row of queries D = rowsum(dO * O) - dLSE, which is subtracted
// from its dP, and LSE in the form from which weights are computed; and zeros where sums start.
//
// A block has the block_q rows of one tile of a query head; eight lanes share a row. Blocks beyond those
// only write zeros.
#include "kernels/backward_schedule.h"
#include "kernels/head.h"
#include "kernels/machine/pdl.h"
#include "kernels/portable/element.h"

namespace regard {

constexpr i32 threads = config::warps * wave;
constexpr i32 row_lanes = 8;
constexpr i32 width = 8;  // neighbouring columns that a lane loads at once

REGARD_DEVICE bool is_aligned(const u8* row) {
  return reinterpret_cast<u64>(row) % 16 == 0;
}

/// The result is in every lane of the row.
REGARD_DEVICE float row_sum_of_products(const u8* x, const u8* y, i32 columns) {
  const i32 own = lane() % row_lanes;
  const i32 in_vectors = is_aligned(x) && is_aligned(y) ? columns / width * width : 0;
  float sum = 0;
#pragma unroll 2
  for (i32 column = own * width; column < in_vectors; column += row_lanes * width) {
    float a[width], b[width];
    load_elements<config::dtype>(a, x + column * bytes_of<config::dtype>);
    load_elements<config::out>(b, y + column * bytes_of<config::out>);
#pragma unroll
    for (i32 i = 0; i < width; ++i) sum = fmaf(a[i], b[i], sum);
  }
#pragma unroll 1
  for (i32 column = in_vectors + own; column < columns; column += row_lanes)
    sum = fmaf(load_element<config::dtype>(x, column), load_element<config::out>(y, column), sum);
#pragma unroll
  for (i32 distance = 1; distance < row_lanes; distance *= 2) sum += from_lane(sum, lane() ^ distance);
  return sum;
}

/// The LSE of a row that its weights are relative to, in powers of two; +infinity makes all of them 0, NaN
/// makes them NaN.
REGARD_DEVICE float log2_of_sum(float lse, float p_exponent) {
  return fabsf(lse) == infinity ? infinity : fmaf(lse, log2_of_e, -p_exponent);
}

REGARD_DEVICE void prepare_rows(const BackwardArguments& a, const Head& head, i32 first_row) {
  const i32 sq = static_cast<i32>(head.sequence.sq);
  const i64 first_padded = first_padded_row(a, head.sequence, head.head) + first_row;
#pragma unroll 1
  for (i32 i = thread() / row_lanes; i < a.block_q; i += threads / row_lanes) {
    // Rows past the last one repeat it, because the lanes of a wave add up together.
    const i32 row = smaller(first_row + i, sq - 1);
    const bool exists = first_row + i < sq;
    const u8* const grad_o = head.address<config::dtype>(a.grad_o, head.head, head.sequence.first_q + row);
    const float delta = row_sum_of_products(grad_o, head.o(row), a.dv);
    if (lane() % row_lanes != 0) continue;
    const float own = grad_lse_of(a, head.batch, head.head, head.sequence.first_q + row);
    a.delta[first_padded + i] = exists ? delta - own : 0;
    a.lse_log2[first_padded + i] = exists ? log2_of_sum(*head.lse(row), a.p_exponent) : infinity;
  }
}

REGARD_DEVICE void write_zeros(const BackwardArguments& a) {
  uint4* const to = static_cast<uint4*>(a.zeroed);
  const i64 step = i64{block_count()} * threads;
#pragma unroll 4
  for (i64 i = i64{block_index()} * threads + thread(); i < a.zeroed_vectors; i += step) to[i] = uint4{};
}

/// All rows of the gradient of a bias that is not shared.
REGARD_DEVICE void clear_grad_bias(const BackwardArguments& a) {
  const i64 bytes = bytes_of_dtype(a.bias_dtype), row_bytes = a.sk * bytes, rows = a.b * a.hq * a.sq;
#pragma unroll 1
  for (i64 i = block_index(); i < rows; i += block_count()) {
    const i64 matrix = i / a.sq;
    u8* const row = static_cast<u8*>(a.grad_bias.data) +
                    element_of(a.grad_bias, matrix / a.hq, matrix % a.hq, i % a.sq) * bytes;
    const i64 in_vectors = is_aligned(row) ? row_bytes / 16 * 16 : 0;
#pragma unroll 1
    for (i64 byte = thread() * 16; byte < in_vectors; byte += threads * 16)
      *reinterpret_cast<uint4*>(row + byte) = uint4{};
#pragma unroll 1
    for (i64 byte = in_vectors + thread() * 2; byte < row_bytes; byte += threads * 2)
      *reinterpret_cast<u16*>(row + byte) = 0;
  }
}

}  // namespace regard

REGARD_KERNEL(regard::BackwardArguments, regard::threads) {
  using namespace regard;
  launch_dependent_grids();
  const u32 row_blocks = static_cast<u32>((arguments.sq + arguments.block_q - 1) / arguments.block_q);
  const u32 heads = static_cast<u32>(arguments.hq),
            index = row_blocks > 0 ? block_index() / row_blocks : heads;
  const u32 batch = index / heads;
  if (row_blocks > 0 && batch < arguments.b) {
    const Head head(arguments, batch, index % heads);
    const i32 first_row = static_cast<i32>(block_index() % row_blocks) * arguments.block_q;
    if (first_row < head.sequence.sq) prepare_rows(arguments, head, first_row);
  }
  write_zeros(arguments);
  if (arguments.clear_grad_bias) clear_grad_bias(arguments);
}
