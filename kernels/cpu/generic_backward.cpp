// Backward attention for every valid signature, with dtypes, head dimensions and features known only at run
// time.
//
// One stage and no workspace: each block owns a part of one output and recomputes the scores that it needs,
// so that nothing is summed across blocks and every run gives the same bits. A block is one of
//   grad_q     64 query rows of a head: walks the keys
//   grad_kv    64 keys of a K/V head: walks the query rows of all heads of the group
//   grad_bias  64 x 64 elements of a bias matrix: walks the heads that share it
//   grad_sink  one head: walks its rows
//   gradients of captured tensors, together: walks all scores, as any of them can read any element
#include "kernels/cpu/flush_to_zero.h"
#include "kernels/cpu/generic_product.h"
#include "kernels/cpu/generic_scores.h"
#include "kernels/cpu/kernel.h"
#include "kernels/cpu/long_sum.h"
#include "kernels/kernel_arguments.h"

namespace regard::generic {

inline void clear(float* sums, i64 count) {
  __builtin_memset(sums, 0, static_cast<u64>(count) * 4);
}

/// D = dO . O - dLSE of row i of the tile. `temporary` holds two rows.
inline float delta_of(const QueryRows& rows, i64 i, float* temporary) {
  const Arguments& a = rows.a;
  const i64 row = rows.sequence.first_q + rows.first + i, width = GenericLayout::padded(a.dv);
  clear(temporary, 2 * width);
  load_row(temporary, address(a.o, a.out, rows.batch(), rows.head, row), a.out, a.dv);
  load_row(temporary + width, address(a.grad_o, a.out, rows.batch(), rows.head, row), a.out, a.dv);
  Floats sum{};
  for (i64 c = 0; c < width; c += lanes)
    sum += load<Floats>(temporary + c) * load<Floats>(temporary + width + c);
  return sum_of(sum) - grad_lse_of(a, rows.batch(), rows.head, row);
}

inline float lse_of(const QueryRows& rows, i64 i) {
  return *row_of<const float>(rows.a.lse, rows.batch(), rows.head, rows.sequence.first_q + rows.first + i);
}

/// One tile of query rows against one step of keys: from Q, K, V and dO to weights and gradients of scores.
struct GenericTile {
  const Arguments& a;
  i64 width_q, width_v;             // columns of a row of Q and K, and of O and V
  float *q, *grad_o;                // [row][column]
  float *k, *v;                     // [key][column]
  float *k_columns, *v_columns;     // [column][key]
  float *weights, *grads;           // [row][key]
  float *bias_row, *keep, *slopes;  // [key]
  float *sums_k, *sums_v, *sums;    // the sums of a block: like K, like V, like the scores
  float *earlier_kv, *earlier;      // for long sums (long_sum.h)
  float lse[tile_rows], delta[tile_rows];
  FunctionRows function;

  GenericTile(const Arguments& arguments, const FunctionCall* call, float* scratch)
      : a(arguments),
        width_q(GenericLayout::padded(a.d)),
        width_v(GenericLayout::padded(a.dv)),
        function(arguments, call, scratch + GenericLayout(a.d, a.dv).backward_bytes() / 4) {
    const GenericLayout layout(a.d, a.dv);
    const auto take = [&scratch](i64 count) {
      scratch += count;
      return scratch - count;
    };
    q = take(layout.q);
    grad_o = take(layout.grad_o);
    k = take(layout.k);
    v = take(layout.v);
    k_columns = take(layout.k_columns);
    v_columns = take(layout.v_columns);
    weights = take(layout.scores);
    grads = take(layout.grads);
    slopes = take(tile_keys);
    bias_row = take(tile_keys);
    keep = take(tile_keys);
    sums_k = take(layout.k);
    sums_v = take(layout.v);
    sums = take(layout.scores);
    earlier_kv = take(layout.k + layout.v);
    earlier = take(layout.scores);
  }

  void load_rows(const QueryRows& rows) {
    load_tile(q, rows.q(), rows.computed());
    load_tile(grad_o, rows.grad_o(), rows.computed());
    for (i64 i = 0; i < rows.count; ++i) {
      delta[i] = delta_of(rows, i, grads);
      // A row that saw nothing has LSE = -infinity; +infinity makes all its weights exactly 0.
      lse[i] = lse_of(rows, i) == -infinity ? infinity : lse_of(rows, i);
    }
  }

  void load_keys(const Sequence& sequence, i64 kv_head, i64 first_key) {
    load_tile(k, keys_of(a, a.k, sequence, kv_head, first_key, a.d), tile_keys);
    load_tile(v, keys_of(a, a.v, sequence, kv_head, first_key, a.dv), tile_keys);
    transpose_tile(k_columns, k, a.d);
    transpose_tile(v_columns, v, a.dv);
  }

  /// What a gradient belongs to: scale * Q K^T; the bias, which is added after the soft cap; or what a
  /// function captures, whose gradients are added up row by row.
  enum class Of { products, bias, captured };

  /// `weights` gets the factors of dO, `grads` the gradient of one of these.
  void compute(const QueryRows& rows, i64 first_key, Of of = Of::products) {
    const i64 count = rows.computed();
    make_product(weights, tile_keys, {q, width_q, 1}, k_columns, tile_keys, count, tile_keys, a.d);
    make_product(grads, tile_keys, {grad_o, width_v, 1}, v_columns, tile_keys, count, tile_keys, a.dv);
    for (i64 i = 0; i < rows.count; ++i) {
      modify_row(rows, i, first_key, weights + i * tile_keys, slopes, bias_row, function);
      if (drops(a)) draw_dropout(rows, i, first_key, keep);
      differentiate_row(i, of);
      if (of == Of::captured) function.add_gradients(grads + i * tile_keys);
    }
  }

 private:
  void differentiate_row(i64 i, Of of) {
    for (i64 key = i * tile_keys; key < (i + 1) * tile_keys; key += lanes) {
      const Floats p = exp2((load<Floats>(weights + key) - lse[i]) * log2_of_e);
      Floats weight = p, grad = load<Floats>(grads + key);
      if (drops(a)) {
        const Floats factor = load<Floats>(keep + key % tile_keys) * a.dropout_scale;
        weight *= factor;
        grad *= factor;
      }
      grad = p * (grad - delta[i]);
      if (of == Of::products && (a.softcap > 0 || function.has_score())) {
        // Where the weight is 0, so is the gradient, even if the slope is infinite.
        grad = select(p == 0.0f, Floats{}, grad * load<Floats>(slopes + key % tile_keys));
      }
      store(weights + key, weight);
      store(grads + key, grad);
    }
  }
};

inline void clear_grad_captured(const FunctionCall& call) {
  for (const CapturedTensor& tensor : call.tensors) {
    if (!tensor.gradient) continue;
    const i64* const sizes = tensor.sizes;  // 1 past the last dimension
    const i64* const strides = tensor.gradient_strides;
    for (i64 i = 0; i < sizes[0]; ++i)
      for (i64 j = 0; j < sizes[1]; ++j)
        for (i64 k = 0; k < sizes[2]; ++k)
          for (i64 l = 0; l < sizes[3]; ++l)
            tensor.gradient[i * strides[0] + j * strides[1] + k * strides[2] + l * strides[3]] = 0;
  }
}

inline void make_grad_q(const Arguments& a, const QueryRows& rows, GenericTile& tile) {
  if (rows.count <= 0) return;
  tile.load_rows(rows);
  clear(tile.sums_k, tile_rows * tile.width_q);
  LongSums sums(tile.sums_k, tile.earlier_kv, tile_rows * tile.width_q);
  const Range seen = rows.visible.common.any;
  for (i64 key = seen.begin / tile_keys * tile_keys; key < seen.end; key += tile_keys) {
    if (!rows.sees_any(key)) continue;
    tile.load_keys(rows.sequence, rows.kv_head, key);
    tile.compute(rows, key);
    add_product(tile.sums_k, tile.width_q, {tile.grads, tile_keys, 1}, tile.k, tile.width_q, rows.computed(),
                tile.width_q, tile_keys);
    sums.added();
  }
  sums.finish();
  for (i64 i = 0; i < rows.count; ++i)
    store_row(address(a.grad_q, a.dtype, rows.batch(), rows.head, rows.sequence.first_q + rows.first + i),
              tile.sums_k + i * tile.width_q, a.scale, a.dtype, a.d);
}

inline void make_grad_kv(const Arguments& a, i64 batch, i64 kv_head, i64 first_key, GenericTile& tile) {
  const Sequence sequence = sequence_of(a, batch);
  if (first_key >= sequence.sk) return;
  tile.load_keys(sequence, kv_head, first_key);
  const i64 count = tile_keys * (tile.width_q + tile.width_v);  // one after the other
  clear(tile.sums_k, count);
  LongSums sums(tile.sums_k, tile.earlier_kv, count);
  const i64 group = a.hq / a.hk;
  for (i64 head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (i64 row = 0; row < sequence.sq; row += tile_rows) {
      const QueryRows rows(a, batch, head, row);
      if (!rows.sees_any(first_key)) continue;
      tile.load_rows(rows);
      tile.compute(rows, first_key);
      add_product(tile.sums_v, tile.width_v, {tile.weights, 1, tile_keys}, tile.grad_o, tile.width_v,
                  tile_keys, tile.width_v, rows.count);
      add_product(tile.sums_k, tile.width_q, {tile.grads, 1, tile_keys}, tile.q, tile.width_q, tile_keys,
                  tile.width_q, rows.count);
      sums.added();
    }
  }
  sums.finish();
  for (i64 i = 0; i < smaller(tile_keys, sequence.sk - first_key); ++i) {
    const i64 row = sequence.first_k + first_key + i;
    store_row(address(a.grad_k, a.dtype, batch, kv_head, row), tile.sums_k + i * tile.width_q, a.scale,
              a.dtype, a.d);
    store_row(address(a.grad_v, a.dtype, batch, kv_head, row), tile.sums_v + i * tile.width_v, 1.0f, a.dtype,
              a.dv);
  }
}

/// The heads that share one matrix of the bias.
struct BiasHeads {
  Range batches, heads;

  BiasHeads(const Arguments& a, i64 matrix) {
    const i64 of_batch = a.grad_bias.head == 0 ? 1 : a.hq;
    const i64 batch = matrix / of_batch, head = matrix % of_batch;
    batches = a.grad_bias.batch == 0 ? Range{0, a.b} : Range{batch, batch + 1};
    heads = a.grad_bias.head == 0 ? Range{0, a.hq} : Range{head, head + 1};
  }
  static i64 matrices(const Arguments& a) {
    return a.grad_bias.data ? (a.grad_bias.batch == 0 ? 1 : a.b) * (a.grad_bias.head == 0 ? 1 : a.hq) : 0;
  }
};

inline void make_grad_bias(const Arguments& a, const BiasHeads& shared, i64 first_row, i64 first_key,
                           GenericTile& tile) {
  float* const sums = tile.sums;
  clear(sums, tile_rows * tile_keys);
  LongSums long_sums(sums, tile.earlier, tile_rows * tile_keys);
  for (i64 batch = shared.batches.begin; batch < shared.batches.end; ++batch) {
    for (i64 head = shared.heads.begin; head < shared.heads.end; ++head) {
      const QueryRows rows(a, batch, head, first_row);
      if (rows.count <= 0 || !rows.sees_any(first_key)) continue;
      tile.load_rows(rows);
      tile.load_keys(rows.sequence, rows.kv_head, first_key);
      tile.compute(rows, first_key, GenericTile::Of::bias);
      for (i64 at = 0; at < rows.count * tile_keys; at += lanes)
        store(sums + at, load<Floats>(sums + at) + load<Floats>(tile.grads + at));
      long_sums.added();
    }
  }
  long_sums.finish();
  // The whole matrix is written: pairs outside every sequence get 0.
  for (i64 i = 0; i < smaller(tile_rows, a.sq - first_row); ++i) {
    u8* to = address(a.grad_bias, a.bias_dtype, shared.batches.begin, shared.heads.begin, first_row + i);
    store_row(to + first_key * bytes_of_dtype(a.bias_dtype), sums + i * tile_keys, 1.0f, a.bias_dtype,
              smaller(tile_keys, a.sk - first_key));
  }
}

/// One block adds up all gradients of captured tensors, so that every run gives the same bits.
inline void make_grad_captured(const Arguments& a, GenericTile& tile) {
  clear_grad_captured(tile.function.call());
  for (i64 batch = 0; batch < a.b; ++batch) {
    for (i64 head = 0; head < a.hq; ++head) {
      for (i64 row = 0;; row += tile_rows) {
        const QueryRows rows(a, batch, head, row);
        if (rows.count <= 0) break;
        tile.load_rows(rows);
        const Range seen = rows.visible.common.any;
        for (i64 key = seen.begin / tile_keys * tile_keys; key < seen.end; key += tile_keys) {
          if (!rows.sees_any(key)) continue;
          tile.load_keys(rows.sequence, rows.kv_head, key);
          tile.compute(rows, key, GenericTile::Of::captured);
        }
      }
    }
  }
}

/// dsink = -sum of exp(sink - LSE) D: the sink's weight in each row; it has no value vector.
inline void make_grad_sink(const Arguments& a, i64 head, float* temporary) {
  const float sink = a.sink[head];
  double sum = 0;
  for (i64 batch = 0; batch < a.b && sink != -infinity; ++batch) {
    for (i64 row = 0;; row += tile_rows) {
      const QueryRows rows(a, batch, head, row);
      if (rows.count <= 0) break;
      for (i64 i = 0; i < rows.count; ++i)
        sum -=
            static_cast<double>(exp2_of((sink - lse_of(rows, i)) * log2_of_e)) * delta_of(rows, i, temporary);
    }
  }
  a.grad_sink[head] = static_cast<float>(sum);
}

}  // namespace regard::generic

REGARD_KERNEL(REGARD_SYMBOL) {
  using namespace regard;
  const auto& a = static_cast<const KernelArguments<GenericSchedule>&>(*arguments);
  const FlushToZero mode;
  const i64 row_tiles = ceil_divide(a.sq, generic::tile_rows),
            key_tiles = ceil_divide(a.sk, generic::tile_keys);
  const auto grid =
      GenericLayout::backward_grid(a.b, a.hq, a.hk, a.sq, a.sk, generic::BiasHeads::matrices(a),
                                   a.grad_sink != nullptr, a.function && a.function->derivative_count > 0);
  generic::GenericTile tile(a, a.function, static_cast<float*>(scratch));

  if (block < grid.grad_q) return generic::make_grad_q(a, generic::QueryRows::of_block(a, block), tile);
  block -= grid.grad_q;
  if (block < grid.grad_kv) {
    const i64 head = block / key_tiles;
    return generic::make_grad_kv(a, head / a.hk, head % a.hk, block % key_tiles * generic::tile_keys, tile);
  }
  block -= grid.grad_kv;
  if (block < grid.grad_bias) {
    const i64 tiles = row_tiles * key_tiles;
    return generic::make_grad_bias(a, generic::BiasHeads(a, block / tiles),
                                   block % tiles / key_tiles * generic::tile_rows,
                                   block % key_tiles * generic::tile_keys, tile);
  }
  block -= grid.grad_bias;
  if (block < grid.grad_sink) return generic::make_grad_sink(a, block, tile.grads);
  generic::make_grad_captured(a, tile);
}
