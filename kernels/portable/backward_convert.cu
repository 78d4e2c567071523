// What is left when all blocks of keys have been through: sums in fp32 become gradients. The grid: the
// gradient of each head's learned sink, tiles of dQ, then of dK, of dV and of a bias's gradient, as far as
// those were summed up in memory. Nothing here depends on the order in which blocks run.
#include "kernels/backward_schedule.h"
#include "kernels/head.h"
#include "kernels/portable/machine/element.h"

namespace regard {

constexpr i32 threads = key::warps * wave;
constexpr i32 width = 8;  // neighbouring columns of a thread
constexpr i32 key_rows = 64, bias_rows = 16;

/// Rows of sums, each `pitch` floats behind the one before.
struct SumRows {
  const float* first;
  i64 pitch;

  REGARD_DEVICE void load(float (&x)[width], i32 row, i64 column) const {
    load_elements<DType::fp32>(x, reinterpret_cast<const u8*>(first + row * pitch + column));
  }
  /// Whether it may load.
  REGARD_DEVICE bool is_aligned() const {
    return reinterpret_cast<u64>(first) % 16 == 0 && pitch % (16 / sizeof(float)) == 0;
  }
  REGARD_DEVICE float at(i32 row, i64 column) const { return first[row * pitch + column]; }
};

/// A tile of dQ's sums.
template <GradQOrder order>
struct SumTile {
  const float* first;
  GradQTile tile;

  /// The columns of a row lie in neighbouring threads' vectors, two in each or one.
  REGARD_DEVICE void load(float (&x)[width], i32 row, i64 column) const {
    const float* const from = first + tile.place<order>(row, static_cast<i32>(column));
    if constexpr (order == GradQOrder::rows) {
      load_elements<DType::fp32>(x, reinterpret_cast<const u8*>(from));
    } else if constexpr (order == GradQOrder::fragments) {
#pragma unroll
      for (i32 i = 0; i < width; i += 2) {
        const float2 two = *reinterpret_cast<const float2*>(from + i / 2 * 4);
        x[i] = two.x, x[i + 1] = two.y;
      }
    } else {
#pragma unroll
      for (i32 i = 0; i < width; ++i) x[i] = from[i * 16];
    }
  }
  REGARD_DEVICE static bool is_aligned() { return true; }
  REGARD_DEVICE float at(i32 row, i64 column) const {
    return first[tile.place<order>(row, static_cast<i32>(column))];
  }
};

/// Rows of a gradient.
struct GradRows {
  u8* first;
  i64 pitch;  // in bytes
  i32 rows;
  i64 columns;

  REGARD_DEVICE GradRows(u8* at, i64 stride, i64 count, i64 all_columns)
      : first(at),
        pitch(stride * bytes_of<key::dtype>),
        rows(static_cast<i32>(count)),
        columns(all_columns) {}
};

/// By the whole block. Threads of a wave have four vectors of eight rows, so that both sides move whole
/// sectors of memory.
template <class Sums>
REGARD_DEVICE void convert(const Sums& sums, const GradRows& to, float scale) {
  constexpr i32 together = 4;
  const bool aligned = (reinterpret_cast<u64>(to.first) | static_cast<u64>(to.pitch)) % 16 == 0;
  const i64 vectors = sums.is_aligned() ? to.columns / width : 0;
#pragma unroll 1
  for (i64 first = 0; first < vectors; first += together) {
#pragma unroll 2
    for (i32 i = thread(); i < to.rows * together; i += threads) {
      const i32 row = i / together;
      const i64 column = (first + i % together) * width;
      if (column >= vectors * width) continue;
      float x[width];
      sums.load(x, row, column);
#pragma unroll
      for (float& one : x) one *= scale;
      u8* const there = to.first + row * to.pitch + column * bytes_of<key::dtype>;
      if (!aligned) {
#pragma unroll
        for (i32 c = 0; c < width; ++c) store_element<key::dtype>(there, c, x[c]);
      } else if constexpr (key::dtype == DType::fp32) {
#pragma unroll
        for (i32 half = 0; half < 2; ++half)
          reinterpret_cast<float4*>(there)[half] =
              make_float4(x[4 * half], x[4 * half + 1], x[4 * half + 2], x[4 * half + 3]);
      } else {
        store_elements<key::dtype>(there, x);
      }
    }
  }
  // What is no whole vector.
  const i64 done = vectors * width, left = to.columns - done;
  if (left == 0) return;
#pragma unroll 1
  for (i64 i = thread(); i < to.rows * left; i += threads) {
    const i32 row = static_cast<i32>(i / left);
    const i64 column = done + i % left;
    store_element<key::dtype>(to.first + row * to.pitch, column, sums.at(row, column) * scale);
  }
}

template <GradQOrder order>
REGARD_DEVICE void convert_grad_q(const BackwardArguments& a, const float* sums, const GradRows& to) {
  const GradQTile tile{a.block_q, static_cast<i32>(a.grad_q_columns), a.grad_q_slices};
  convert(SumTile<order>{sums, tile}, to, a.scale);
}

/// A tile of queries of one query head.
REGARD_DEVICE void store_grad_q(const BackwardArguments& a, const Head& head, i64 first_row) {
  const i64 rows = smaller<i64>(head.sequence.sq - first_row, a.block_q);
  if (rows <= 0) return;
  const float* const sums =
      a.grad_q_sum + (first_padded_row(a, head.sequence, head.head) + first_row) * a.grad_q_columns;
  const GradRows to(head.address<key::dtype>(a.grad_q, head.head, head.sequence.first_q + first_row),
                    a.grad_q.row, rows, a.d);
  if (a.grad_q_order == GradQOrder::rows)
    convert_grad_q<GradQOrder::rows>(a, sums, to);
  else if (a.grad_q_order == GradQOrder::fragments)
    convert_grad_q<GradQOrder::fragments>(a, sums, to);
  else
    convert_grad_q<GradQOrder::transposed_fragments>(a, sums, to);
}

/// dK or dV: some keys of one K/V head.
REGARD_DEVICE void store_grad_keys(const BackwardArguments& a, i64 batch, i64 kv_head, i64 first_key,
                                   const SumRows& all, const Rows& grad, i64 columns, float scale) {
  const Sequence sequence = sequence_of(a, batch);
  const i64 rows = smaller<i64>(sequence.sk - first_key, key_rows);
  if (rows <= 0) return;
  const i64 first_row = a.offsets_k ? kv_head * a.tk + sequence.first_k : (batch * a.hk + kv_head) * a.sk;
  u8* const to = static_cast<u8*>(grad.data) +
                 (batch * grad.batch + kv_head * grad.head + (sequence.first_k + first_key) * grad.row) *
                     bytes_of<key::dtype>;
  convert(SumRows{all.first + (first_row + first_key) * all.pitch, all.pitch},
          GradRows(to, grad.row, rows, columns), scale);
}

/// Some rows of the gradient of a bias that batches or heads share.
REGARD_DEVICE void store_grad_bias(const BackwardArguments& a, i64 heads, i64 matrix, i64 first_row) {
  const i64 element =
      matrix / heads * a.grad_bias.batch + matrix % heads * a.grad_bias.head + first_row * a.grad_bias.row;
  convert(SumRows{a.grad_bias_sum + (matrix * a.sq + first_row) * a.sk, a.sk},
          GradRows(static_cast<u8*>(a.grad_bias.data) + element * bytes_of<key::dtype>, a.grad_bias.row,
                   smaller<i64>(a.sq - first_row, bias_rows), a.sk),
          1);
}

/// dsink = -sum of exp(sink - LSE) D over all rows: the sink's share of each row, and it has no value. Sums
/// of sequences are made first, so that none gets long.
REGARD_DEVICE void store_grad_sink(const BackwardArguments& a, i64 head_index) {
  __shared__ float of_threads[threads];
  const float sink = a.sink[head_index] * log2_of_e;
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
    __syncthreads();
    if (thread() < half) of_threads[thread()] += of_threads[thread() + half];
  }
  if (thread() == 0) a.grad_sink[head_index] = of_threads[0];
}

/// Which part of the results a block has: the number of a (batch, head) pair, and of some of its rows. In 32
/// bits, which hold any grid: a division in 64 is a call.
struct Place {
  i64 pair;
  i64 first_row;

  REGARD_DEVICE Place(u32 block, u32 blocks_of_pair, u32 rows)
      : pair(block / blocks_of_pair), first_row(i64{block % blocks_of_pair} * rows) {}
};

REGARD_DEVICE u32 blocks_of(i64 rows, u32 of_block) {
  return (static_cast<u32>(rows) + of_block - 1) / of_block;
}

REGARD_DEVICE void run_block(const BackwardArguments& a, u32 block) {
  const u32 hq = static_cast<u32>(a.hq), hk = static_cast<u32>(a.hk), batches = static_cast<u32>(a.b);
  const u32 sinks = a.grad_sink ? hq : 0;
  if (block < sinks) return store_grad_sink(a, block);
  block -= sinks;

  const u32 tile = static_cast<u32>(a.block_q), of_queries = blocks_of(a.sq, tile);
  if (block < batches * hq * of_queries) {
    const Place place(block, of_queries, tile);
    const u32 pair = static_cast<u32>(place.pair);
    return store_grad_q(a, Head(a, pair / hq, pair % hq), place.first_row);
  }
  block -= batches * hq * of_queries;

  const u32 of_keys = blocks_of(a.sk, key_rows), all_keys = a.grad_k_sum ? batches * hk * of_keys : 0;
  if (block < 2 * all_keys) {
    const bool values = block >= all_keys;
    const Place place(values ? block - all_keys : block, of_keys, key_rows);
    const u32 pair = static_cast<u32>(place.pair);
    if (values)
      store_grad_keys(a, pair / hk, pair % hk, place.first_row, {a.grad_v_sum, a.grad_v_columns}, a.grad_v,
                      a.dv, a.dropout_scale);
    else
      store_grad_keys(a, pair / hk, pair % hk, place.first_row, {a.grad_k_sum, a.grad_k_columns}, a.grad_k,
                      a.d, a.scale);
    return;
  }
  block -= 2 * all_keys;

  const Place place(block, blocks_of(a.sq, bias_rows), bias_rows);
  store_grad_bias(a, a.grad_bias.head == 0 ? 1 : a.hq, place.pair, place.first_row);
}

}  // namespace regard

extern "C" __global__ void __launch_bounds__(regard::threads)
    REGARD_SYMBOL(const __grid_constant__ regard::BackwardArguments arguments) {
  regard::run_block(arguments, blockIdx.x);
}
