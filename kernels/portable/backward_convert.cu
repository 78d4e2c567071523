// The work left once all blocks of keys are done: fp32 sums become gradients. The grid: the gradient of each
// head's learned sink, tiles of dQ, then of dK, of dV and of a bias's gradient, as far as those were summed
// in memory. Nothing here depends on the order in which blocks run.
#include "kernels/backward_schedule.h"
#include "kernels/head.h"
#include "kernels/machine/pdl.h"
#include "kernels/portable/element.h"

namespace regard {

constexpr i32 threads = config::warps * wave;
constexpr i32 width = 8;  // neighbouring columns of a thread
constexpr i32 key_rows = 64, bias_rows = 16;

/// Rows of sums, each `pitch` floats after the previous one, or those of a tile of dQ.
struct GradSums {
  const float* first;
  i64 pitch;
  GradQOrder order = GradQOrder::rows;
};

/// A tile in the given order.
template <GradQOrder order>
struct OrderedSums {
  const float* first;
  i64 pitch;
  GradQTile tile;

  REGARD_DEVICE const float* at(i32 row, i64 column) const {
    if constexpr (order == GradQOrder::rows) return first + row * pitch + column;
    return first + tile.offset<order>(row, static_cast<i32>(column));
  }
  /// A row's columns are in neighbouring threads' vectors, two in each.
  REGARD_DEVICE void load(float (&x)[width], i32 row, i64 column) const {
    const float* const from = at(row, column);
    if constexpr (order == GradQOrder::rows) {
      load_elements<DType::fp32>(x, reinterpret_cast<const u8*>(from));
    } else {
#pragma unroll
      for (i32 i = 0; i < width; i += 2) {
        const float2 two = *reinterpret_cast<const float2*>(from + i / 2 * 4);
        x[i] = two.x, x[i + 1] = two.y;
      }
    }
  }
};

/// Rows of a gradient.
struct ConvertedRows {
  u8* first = nullptr;
  i64 pitch = 0;  // in bytes
  i32 rows = 0;
  i64 columns = 0;
  float scale = 1;
  bool zeros = false;  // there are no sums
  bool wide = false;   // in fp32, although inputs are 16-bit

  ConvertedRows() = default;
  /// From a row of a head on.
  REGARD_DEVICE ConvertedRows(const Rows& grad, i64 batch, i64 head, i64 row,
                              i64 bytes = bytes_of<config::dtype>)
      : first(static_cast<u8*>(grad.data) + element_of(grad, batch, head, row) * bytes),
        pitch(grad.row * bytes),
        wide(bytes > bytes_of<config::dtype>) {}
};

/// By the whole block. Threads of a wave take four vectors of eight rows, so that both reads and writes
/// cover whole memory sectors.
template <DType dtype, GradQOrder order>
REGARD_DEVICE void convert(const OrderedSums<order>& sums, const ConvertedRows& to, bool aligned) {
  constexpr i32 together = 4;
  const i64 vectors = aligned ? to.columns / width : 0;
#pragma unroll 1
  for (i64 first = 0; first < vectors; first += together) {
#pragma unroll 1
    for (i32 i = thread(); i < to.rows * together; i += threads) {
      const i32 row = i / together;
      const i64 column = (first + i % together) * width;
      if (column >= vectors * width) continue;
      float x[width];
      sums.load(x, row, column);
#pragma unroll
      for (float& one : x) one = to.zeros ? 0 : one * to.scale;
      store_elements<dtype>(to.first + row * to.pitch + column * bytes_of<dtype>, x);
    }
  }
  // The rest, less than a whole vector.
  const i64 done = vectors * width, left = to.columns - done;
  if (left == 0) return;
#pragma unroll 1
  for (i32 row = 0; row < to.rows; ++row)
#pragma unroll 1
    for (i64 column = done + thread(); column < to.columns; column += threads)
      store_element<dtype>(to.first + row * to.pitch, column,
                           to.zeros ? 0 : *sums.at(row, column) * to.scale);
}

template <DType dtype, GradQOrder order>
REGARD_DEVICE void convert(const BackwardArguments& a, const GradSums& sums, const ConvertedRows& to) {
  const u64 addresses = reinterpret_cast<u64>(to.first) | static_cast<u64>(to.pitch) |
                        reinterpret_cast<u64>(sums.first) | static_cast<u64>(sums.pitch * 4);
  const GradQTile tile{a.block_q, static_cast<i32>(a.grad_q_columns), a.grad_q_slices};
  convert<dtype>(OrderedSums<order>{sums.first, sums.pitch, tile}, to, addresses % 16 == 0);
}

/// dsink = -sum of exp(sink - LSE) D over all rows: the sink's weight in each row; it has no value vector.
/// Sums are computed per sequence first, so that none gets long.
REGARD_DEVICE void store_grad_sink(const BackwardArguments& a, i64 head_index) {
  REGARD_SHARED float of_threads[threads];
  const float sink = fmaf(a.sink[head_index], log2_of_e, -a.p_exponent);
  float total = 0;
#pragma unroll 1
  for (i64 batch = 0; batch < a.b && sink != -infinity; ++batch) {
    const Sequence sequence = sequence_of(a, batch);
    const i64 first = first_padded_row(a, sequence, head_index);
    float sum = 0;
#pragma unroll 4
    for (i64 row = thread(); row < sequence.sq; row += threads)
      sum = fmaf(exp2(sink - a.lse_log2[first + row]), a.delta[first + row], sum);
    total -= sum;
  }
  of_threads[thread()] = total;
#pragma unroll 1
  for (i32 half = threads / 2; half > 0; half /= 2) {
    sync_block();
    if (thread() < half) of_threads[thread()] += of_threads[thread() + half];
  }
  if (thread() == 0) a.grad_sink[head_index] = of_threads[0];
}

/// What a block of the grid rounds, and where it stores it; no rows if none are left. In 32 bits, which hold
/// any grid, because a 64-bit division is a function call.
struct Part {
  GradSums sums{};
  ConvertedRows to;

  REGARD_DEVICE Part(const BackwardArguments& a, u32 block) {
    const u32 batches = static_cast<u32>(a.b), hq = static_cast<u32>(a.hq), hk = static_cast<u32>(a.hk);
    const u32 of_queries = tiles(a.sq, static_cast<u32>(a.block_q)), of_keys = tiles(a.sk, key_rows);
    const u32 queries = batches * hq * of_queries, keys = a.grad_k_sum ? batches * hk * of_keys : 0;
    if (block < queries) {
      const u32 pair = block / of_queries;
      take_queries(a, Head(a, pair / hq, pair % hq), i64{block % of_queries} * a.block_q);
    } else if (block -= queries; block < 2 * keys) {
      const bool values = block >= keys;
      if (values) block -= keys;
      const u32 pair = block / of_keys;
      take_keys(a, values, pair / hk, pair % hk, i64{block % of_keys} * key_rows);
    } else {
      block -= 2 * keys;
      const u32 of_bias = tiles(a.sq, bias_rows);
      take_bias(a, block / of_bias, i64{block % of_bias} * bias_rows);
    }
  }

 private:
  REGARD_DEVICE static u32 tiles(i64 rows, u32 of_tile) {
    return (static_cast<u32>(rows) + of_tile - 1) / of_tile;
  }
  REGARD_DEVICE static i32 count(i64 left, i64 most) {
    return static_cast<i32>(larger<i64>(smaller(left, most), 0));
  }

  /// A tile of one query head.
  REGARD_DEVICE void take_queries(const BackwardArguments& a, const Head& head, i64 row) {
    sums = {a.grad_q_sum + (first_padded_row(a, head.sequence, head.head) + row) * a.grad_q_columns,
            a.grad_q_columns, a.grad_q_order};
    to = ConvertedRows(a.grad_q, head.batch, head.head, head.sequence.first_q + row);
    to.rows = count(head.sequence.sq - row, a.block_q);
    to.columns = a.d;
    to.scale = a.scale / a.ds_scale;
    // No block has stored rows that see no key. Blocks past the end of a packed sequence have no rows and no
    // counter.
    const u32 tile = static_cast<u32>(row) / static_cast<u32>(a.block_q);
    to.zeros = to.rows > 0 && a.first_stores && a.turns[first_tile(a, head.sequence, head.head) + tile] == 0;
  }

  /// dK or dV of some keys of one K/V head.
  REGARD_DEVICE void take_keys(const BackwardArguments& a, bool values, i64 batch, i64 kv_head, i64 key) {
    const Sequence sequence = sequence_of(a, batch);
    sums.pitch = values ? a.grad_v_columns : a.grad_k_columns;
    sums.first = (values ? a.grad_v_sum : a.grad_k_sum) + key_number(a, sequence, kv_head, key) * sums.pitch;
    to = ConvertedRows(values ? a.grad_v : a.grad_k, batch, kv_head, sequence.first_k + key);
    to.rows = count(sequence.sk - key, key_rows);
    to.columns = values ? a.dv : a.d;
    to.scale = values ? a.dropout_scale * a.p_scale : a.scale / a.ds_scale;
  }

  /// Some rows of the gradient of a bias that batches or heads share.
  REGARD_DEVICE void take_bias(const BackwardArguments& a, u32 matrix, i64 row) {
    const u32 heads = a.grad_bias.head == 0 ? 1 : static_cast<u32>(a.hq);
    sums = {a.grad_bias_sum + (matrix * a.sq + row) * a.sk, a.sk};
    to = ConvertedRows(a.grad_bias, matrix / heads, matrix % heads, row, bytes_of_dtype(a.bias_dtype));
    to.rows = count(a.sq - row, bias_rows);
    to.columns = a.sk;
  }
};

}  // namespace regard

REGARD_KERNEL(regard::BackwardArguments, regard::threads) {
  using namespace regard;
  wait_on_dependent_grids();
  const u32 sinks = arguments.grad_sink ? static_cast<u32>(arguments.hq) : 0;
  if (block_index() < sinks) {
    store_grad_sink(arguments, block_index());
  } else {
    const Part part(arguments, block_index() - sinks);
    if (part.to.wide)
      convert<DType::fp32, GradQOrder::rows>(arguments, part.sums, part.to);
    else if (part.sums.order == GradQOrder::rows)
      convert<config::dtype, GradQOrder::rows>(arguments, part.sums, part.to);
    else
      convert<config::dtype, GradQOrder::fragments>(arguments, part.sums, part.to);
  }
}
