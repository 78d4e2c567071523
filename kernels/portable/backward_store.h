// Stores a block's gradients: added to sums in global memory, or rounded and stored in the caller's tensors.
#pragma once

#include "kernels/head.h"
#include "kernels/machine/add.h"
#include "kernels/portable/backward_scores.h"

namespace regard {

/// Whether the sum of dQ is laid out in fragments: only if tiles have whole slices of it
/// (kernels/backward_schedule.h).
constexpr bool adds_fragments = block_q % GradQTile::slice_length == 0 && target::mma_layout;

/// Columns of the sums of dQ and dK, and of dV.
constexpr i32 grad_q_columns = parts * block_d, grad_v_columns = parts * block_dv;

/// Adds to the tile of grad_q_sum at `to`, starting at one of its columns.
template <bool as_fragments, class Sums>
REGARD_DEVICE void add_grad_q(float* to, const Sums& sums, i32 first_column) {
  using Rows = ShareOfQ::Rows;
  using Columns = ShareOfQ::Columns;
  const i32 row = ShareOfQ::row() + Rows::of_thread();
  const i32 column = first_column + Columns::of_thread(ShareOfQ::part());
  if constexpr (as_fragments) {
    // A wave's rows are in one slice.
    static_assert(GradQTile::slice_length % (ShareOfQ::tiles_m * Fragment::rows) == 0);
    constexpr GradQTile tile{block_q, grad_q_columns, as_fragments ? block_q / GradQTile::slice_length : 0};
    constexpr i32 row_step = tile.offset<GradQOrder::fragments>(Fragment::rows, 0),
                  column_step = tile.offset<GradQOrder::fragments>(0, Fragment::columns);
    to += tile.offset<GradQOrder::fragments>(row, column);
#pragma unroll
    for (i32 m = 0; m < ShareOfQ::tiles_m; ++m)
#pragma unroll
      for (i32 n = 0; n < ShareOfQ::tiles_n; ++n)
        add(to + m * row_step + Columns::of_tile(n) / Fragment::columns * column_step, sums[m][n].x[0],
            sums[m][n].x[1]);
  } else {
    to += row * grad_q_columns + column;
#pragma unroll
    for (i32 m = 0; m < ShareOfQ::tiles_m; ++m)
#pragma unroll
      for (i32 half = 0; half < Fragment::halves; ++half)
        Columns::each_run(sums[m], half, [&](i32 offset, const float(&x)[Columns::run]) {
#pragma unroll
          for (i32 i = 0; i < Columns::run; i += 2)
            add(to + Rows::offset(m, half) * grad_q_columns + offset + i, {x[i], x[i + 1]});
        });
  }
}

/// Adds to `count` rows of grad_k_sum or grad_v_sum through shared memory whose contents are no longer read;
/// whole vectors are written.
template <class Share, i32 columns, i32 pitch>
REGARD_DEVICE void add_grad_keys(u8* staged, typename Share::Sums& sums, float* to, i32 count) {
  constexpr i32 width = 4, vectors = columns / width, row_bytes = (columns + 2 * width) * 4;
  static_assert(block_k * row_bytes <= layout.total());
  const u32 address = shared_address(staged);
  Share::each_run(sums, [&](i32 row, i32 column, const float(&x)[Share::Columns::run]) {
    store_numbers<DType::fp32>(address + static_cast<u32>(row * row_bytes + column * 4), x);
  });
  sync_block();
#pragma unroll 1
  for (i32 i = thread(); i < count * vectors; i += threads) {
    const i32 row = i / vectors, column = i % vectors * width;
    float x[width];
    load_shared(x, address + static_cast<u32>(row * row_bytes + column * 4));
    add(to + row * pitch + column, {x[0], x[1]}, {x[2], x[3]});
  }
}

/// Rows of a gradient, from one column on.
struct GradRows {
  u8* first;
  i64 pitch;  // in bytes
  i32 rows, columns;
};

/// Rounds through shared memory whose contents are no longer read; whole vectors are written.
template <class Share, i32 row_bytes, i32 all_columns>
REGARD_DEVICE void store_grad_keys(u8* staged, typename Share::Sums& sums, float scale, const GradRows& to) {
  constexpr i32 width = 16 / operand_bytes;
  const u32 address = shared_address(staged);
  // At most one vector at a time, as rows may be swizzled.
  constexpr i32 run = Share::Columns::run, together = smaller(run, width);
  Share::each_run(sums, [&](i32 row, i32 column, const float(&x)[run]) {
#pragma unroll
    for (i32 first = 0; first < run; first += together) {
      float scaled[together];
#pragma unroll
      for (i32 i = 0; i < together; ++i) scaled[i] = x[first + i] * scale;
      store_numbers<operand>(address + shared_offset<row_bytes>(row, (column + first) * operand_bytes),
                             scaled);
    }
  });
  sync_block();
  constexpr i32 vectors = all_columns / width;
  const bool aligned = (reinterpret_cast<u64>(to.first) | static_cast<u64>(to.pitch)) % 16 == 0;
#pragma unroll 1
  for (i32 i = thread(); i < to.rows * vectors; i += threads) {
    const i32 row = i / vectors, column = i % vectors * width, left = to.columns - column;
    const u8* const from = staged + shared_offset<row_bytes>(row, column * operand_bytes);
    u8* const there = to.first + row * to.pitch + column * operand_bytes;
    if (aligned && left >= width) {
      copy_bytes<16>(there, from);
      continue;
    }
#pragma unroll 1
    for (i32 c = 0; c < smaller(left, width); ++c) {
      if constexpr (operand_bytes == 4)
        reinterpret_cast<u32*>(there)[c] = reinterpret_cast<const u32*>(from)[c];
      else
        copy_bytes<2>(there + 2 * c, from + 2 * c);
    }
  }
}

/// Where the gradient of a bias that batches or heads share is added.
struct BiasImage {
  float* to;
  i64 pitch;  // numbers from one row to the next

  static constexpr i64 bytes = 4;
  REGARD_DEVICE void one(i64 at, float x) const { add(to + at, x); }
  REGARD_DEVICE void two(i64 at, const float (&x)[2]) const { add(to + at, x); }
};
/// Where the gradient of a bias is stored.
struct BiasRows {
  u8* to;
  i64 pitch;

  static constexpr i64 bytes = bytes_of<config::bias_type>;
  REGARD_DEVICE void one(i64 at, float x) const { store_element<config::bias_type>(to, at, x); }
  REGARD_DEVICE void two(i64 at, const float (&x)[2]) const {
    store_elements<config::bias_type>(to + at * bytes, x);
  }
};

/// dS of the rows and keys that exist, in pairs if the alignment of all rows allows it.
template <class Target>
REGARD_DEVICE void store_grad_bias(const Target& target, const Scores& grad, i32 rows, i32 keys) {
  const u64 all = reinterpret_cast<u64>(target.to) | static_cast<u64>(target.pitch * Target::bytes);
  const bool in_pairs = all % (2 * Target::bytes) == 0;
  each_row([&](i32 m, i32 half) {
    const i32 offset = row_offset(m, half);
    if (offset >= rows) return;
    const i64 row = offset * target.pitch;
    ScoreColumns::each_run(grad[m], half, [&](i32 offset, const float(&x)[ScoreColumns::run]) {
#pragma unroll
      for (i32 i = 0; i < ScoreColumns::run; i += 2) {
        const i32 column = offset + i;
        if (in_pairs && column + 1 < keys) {
          target.two(row + column, {x[i], x[i + 1]});
        } else {
          if (column < keys) target.one(row + column, x[i]);
          if (column + 1 < keys) target.one(row + column + 1, x[i + 1]);
        }
      }
    });
  });
}

/// The gradient of an elementwise bias is dS.
REGARD_DEVICE void store_grad_bias(const BackwardArguments& a, const Head& head, const Scores& grad,
                                   i32 first_row, i32 first_key) {
  const i32 row = first_row + row_in_tile(), key = first_key + Fragment::column();
  const i32 rows = static_cast<i32>(head.sequence.sq) - row, keys = static_cast<i32>(head.sequence.sk) - key;
  if (a.grad_bias_sum) {
    const i64 heads = a.grad_bias.head == 0 ? 1 : a.hq;
    const i64 matrix =
        (a.grad_bias.batch == 0 ? 0 : head.batch) * heads + (a.grad_bias.head == 0 ? 0 : head.head);
    float* const to = a.grad_bias_sum + (matrix * a.sq + row) * a.sk + key;
    store_grad_bias(BiasImage{to, a.sk}, grad, rows, keys);
  } else {
    u8* const to =
        head.address<config::bias_type>(a.grad_bias, head.head, row) + i64{key} * bytes_of<config::bias_type>;
    store_grad_bias(BiasRows{to, a.grad_bias.row}, grad, rows, keys);
  }
}

}  // namespace regard
