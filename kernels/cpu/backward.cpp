// Backward: dK, dV, and dQ in fp32 slabs, one per part of the keys.
//
//   P = exp(S - LSE)    dV = P^T dO    dP = dO V^T    dS = P (dP - D)    dK = scale dS^T Q    dQ = scale dS K
//
// A block of the grid owns the keys of one part of one K/V head. For each block_k of them it walks over the
// queries of every head of the group, block_q at a time, so that dK and dV are sums in scratch, written once,
// in one fixed order. Scores are made transposed, [key][query] with one lane per query: the sums over queries
// (dK, dV) and over keys (dQ) then both find dS as rows to broadcast.
#include "kernels/cpu/backward_amx.h"
#include "kernels/cpu/backward_bias.h"
#include "kernels/cpu/backward_tile.h"
#include "kernels/cpu/pack.h"

namespace regard {
namespace {

static_assert(block_q % 64 == 0 && block_k % key_step == 0 && block_k % 2 == 0);

/// C[rows][columns] += A B, or = A B. `height` is the depth that the panels of B are laid out for.
template <bool add, i64 columns, i64 a_row, i64 a_step, i64 height, i64 c_row, int vectors, int tile_height>
REGARD_INLINE void multiply_rows(const float* a, const float* b, i64 steps, float* c) {
  Tile<tile_height, vectors> tile;
  tile.clear();
  tile.add_product(a, a_row, a_step, b, panel, steps);
  if constexpr (add) {
    REGARD_UNROLL
    for (int r = 0; r < tile_height; ++r) {
      REGARD_UNROLL
      for (int v = 0; v < vectors; ++v) tile.sum[r][v] += load<Floats>(c + r * c_row + v * lanes);
    }
  }
  tile.store_to(c, c_row);
}

template <bool add, i64 columns, i64 a_row, i64 a_step, i64 height, i64 c_row, int vectors>
void multiply_panel(const float* a, const float* b, i64 steps, float* c, i64 rows) {
  i64 row = 0;
  for (; row + tile_rows <= rows; row += tile_rows)
    multiply_rows<add, columns, a_row, a_step, height, c_row, vectors, tile_rows>(a + row * a_row, b, steps,
                                                                                  c + row * c_row);
  if constexpr (a_row == 1) {  // rows are queries: their number is anything
    constexpr int rest = block_q % tile_rows;
    if (rest != 0 && row + rest <= rows) {
      multiply_rows<add, columns, a_row, a_step, height, c_row, vectors, rest ? rest : 1>(
          a + row * a_row, b, steps, c + row * c_row);
      row += rest;
    }
    for (; row < rows; ++row)
      multiply_rows<add, columns, a_row, a_step, height, c_row, vectors, 1>(a + row * a_row, b, steps,
                                                                            c + row * c_row);
  }
}

template <bool add, i64 columns, i64 a_row, i64 a_step, i64 height, i64 c_row>
void multiply(const float* a, const float* b, i64 steps, float* c, i64 rows) {
  if constexpr (amx)
    return multiply_amx<columns>({rows_of(a, a_row), b, panel, c, c_row, steps, add}, height, rows);
  constexpr int rest = columns % panel / lanes;
  for (i64 column = 0; column + panel <= columns; column += panel)
    multiply_panel<add, columns, a_row, a_step, height, c_row, tile_vectors>(a, b + column * height, steps,
                                                                             c + column, rows);
  if constexpr (rest != 0) {
    constexpr i64 column = columns - columns % panel;
    multiply_panel<add, columns, a_row, a_step, height, c_row, rest>(a, b + column * height, steps,
                                                                     c + column, rows);
  }
}

/// A B operand with n numbers of each row as columns, panel by panel.
template <i64 n, i64 capacity>
void pack_panels(float* to, const u8* from, i64 stride, i64 rows) {
  constexpr i64 height = depth(capacity), rest = n % panel;
  for (i64 column = 0; column + panel <= n; column += panel)
    pack_columns<panel, panel>(to + column * height, from + column * bytes_of<key::dtype>, stride, rows,
                               capacity);
  if constexpr (rest != 0)
    pack_columns<rest, panel>(to + (n - rest) * height, from + (n - rest) * bytes_of<key::dtype>, stride,
                              rows, capacity);
}

/// A B operand with block_q rows as columns, panel by panel.
template <i64 n>
void pack_query_lanes(float* to, const u8* from, i64 stride, i64 rows) {
  for (i64 column = 0; column < block_q; column += panel)
    pack_transposed<n, panel>(to + column * depth(n), row_address(from, stride, column), stride,
                              larger<i64>(0, smaller(panel, rows - column)));
}

/// The keys of one part of one K/V head.
struct Backward {
  const Arguments& a;
  float* const scratch;
  const i64 batch, kv_head, split;
  const i64 group = a.hq / a.hk;
  BackwardTile tile{scratch};

  float* part(i64 offset) const { return scratch + offset; }

  /// Rows of the fp32 slab that this part of the keys sums dQ in.
  float* grad_q(const Head& head, i64 row) const {
    return a.grad_q_partial + (split * head.row_count() + head.row_number(row)) * columns_d;
  }

  void run(i64 first_key, i64 end_key) {
    i64 end = 0;
    for (i64 i = 0; i < group; ++i) {
      const Head head(a, batch, kv_head * group + i);
      __builtin_memset(grad_q(head, 0), 0, head.sequence.sq * columns_d * 4);
      if constexpr (key::dbias)
        if (!bias_shared(a).any()) clear_bias_rows(head, first_key, smaller(end_key, a.sk));
      end = smaller(end_key, head.sequence.sk);
    }
    for (i64 first = first_key; first < end; first += block_k)
      block_of_keys(Head(a, batch, kv_head * group), first, smaller(block_k, end - first));
  }

  void block_of_keys(const Head& first_head, i64 first, i64 keys) {
    pack_rows<d>(part(scratch_layout.k_rows), first_head.k(first), a.k.row, keys, block_k);
    if constexpr (amx)
      pack_turned<d, block_k>(part(scratch_layout.k_columns), first_head.k(first), a.k.row, keys);
    else
      pack_panels<d, block_k>(part(scratch_layout.k_columns), first_head.k(first), a.k.row, keys);
    pack_rows<dv>(part(scratch_layout.v_rows), first_head.v(first), a.v.row, keys, block_k);
    float* const grad_k = part(scratch_layout.grad_k);
    float* const grad_v = part(scratch_layout.grad_v);
    __builtin_memset(grad_k, 0, block_k * columns_d * 4);
    __builtin_memset(grad_v, 0, block_k * columns_dv * 4);

    const Sequence& sequence = first_head.sequence;
    TileRows<block_q> rows;
    for (i64 query = 0; query < sequence.sq; query += block_q) {
      const i64 queries = smaller(block_q, sequence.sq - query);
      rows.find(a, sequence, query, queries);
      if (!rows.sees_any(first, first + keys)) continue;
      for (i64 i = 0; i < group; ++i) {
        const Head head(a, batch, kv_head * group + i);
        visit({head, first, keys, query, queries}, rows);
      }
    }

    const i64 memory_row = sequence.first_k + first;
    for (i64 i = 0; i < keys; ++i) {
      store_row<key::dtype, d>(first_head.address<key::dtype>(a.grad_k, kv_head, memory_row + i),
                               grad_k + i * columns_d, a.scale);
      store_row<key::dtype, dv>(first_head.address<key::dtype>(a.grad_v, kv_head, memory_row + i),
                                grad_v + i * columns_dv, 1.0f);
    }
  }

  void visit(const TilePlace& place, const TileRows<block_q>& rows) {
    if constexpr (key::bits)
      if (!load_bits(a, place, tile.bits)) return;
    if constexpr (has_bias) load_bias(a, place, tile.bias);
    if constexpr (key::dropout) load_random_bytes(a, place, tile.random);
    load_row_sums(a, place, tile.lse, tile.delta);
    pack_queries(place);

    // Only the keys that some row of the tile sees; the gradient of a bias is wanted for all of them.
    const i64 first = key::dbias ? 0 : larger<i64>(rows.first - place.first_key, 0);
    const i64 last = key::dbias ? place.keys : smaller(place.keys, rows.last - place.first_key);
    const i64 from = first / key_step * key_step, to = round_up(last, key_step), count = to - from;
    float* const k_rows = part(scratch_layout.k_rows) + from * depth(d);
    float* const v_rows = part(scratch_layout.v_rows) + from * depth(dv);
    float* const grad_k = part(scratch_layout.grad_k) + from * columns_d;
    float* const grad_v = part(scratch_layout.grad_v) + from * columns_dv;

    multiply<false, block_q, depth(d), 1, depth(d), block_q>(k_rows, part(scratch_layout.q_transposed),
                                                             depth(d), tile.p + from * block_q, count);
    // Every row sees the keys [clear, masked).
    const i64 clear = key::bits ? to : smaller(larger(rows.all_first - place.first_key, from), to);
    const i64 masked = key::bits ? to : smaller(larger(rows.all_last - place.first_key, clear), to);
    tile.make_probabilities<true>(a, place, rows, from, clear);
    tile.make_probabilities<false>(a, place, rows, clear, masked);
    tile.make_probabilities<true>(a, place, rows, masked, to);
    multiply<true, columns_dv, depth(block_q), 1, depth(block_q), columns_dv>(
        tile.operand + from * depth(block_q), part(scratch_layout.grad_o_columns), depth(block_q), grad_v,
        count);

    multiply<false, block_q, depth(dv), 1, depth(dv), block_q>(
        v_rows, part(scratch_layout.grad_o_transposed), depth(dv), tile.grad_p + from * block_q, count);
    tile.make_score_gradients(a, place, from, to);
    if constexpr (key::dbias) store_bias_gradient(a, place, tile.grad_p);
    multiply<true, columns_d, depth(block_q), 1, depth(block_q), columns_d>(
        tile.grads_by_key() + from * depth(block_q), part(scratch_layout.q_columns), depth(block_q), grad_k,
        count);
    const float* const grads = tile.grads_by_query() + depth(from) * block_q;
    float* const grad = grad_q(place.head, place.first_query);
    if constexpr (amx)
      add_grad_q_amx(grad, part(scratch_layout.k_columns) + depth(from) * 16, grads, depth(count),
                     place.queries, part(scratch_layout.grad_q));
    else
      multiply<true, columns_d, 1, block_q, depth(block_k), columns_d>(
          grads, part(scratch_layout.k_columns) + depth(from) * panel, depth(count), grad, place.queries);
  }

  void pack_queries(const TilePlace& place) {
    const Head& head = place.head;
    const u8* const q = head.q(place.first_query);
    const u8* const grad_o =
        head.address<key::dtype>(a.grad_o, head.head, head.sequence.first_q + place.first_query);
    pack_query_lanes<d>(part(scratch_layout.q_transposed), q, a.q.row, place.queries);
    pack_panels<d, block_q>(part(scratch_layout.q_columns), q, a.q.row, place.queries);
    pack_query_lanes<dv>(part(scratch_layout.grad_o_transposed), grad_o, a.grad_o.row, place.queries);
    pack_panels<dv, block_q>(part(scratch_layout.grad_o_columns), grad_o, a.grad_o.row, place.queries);
  }
};

}  // namespace
}  // namespace regard

REGARD_KERNEL(REGARD_SYMBOL) {
  using namespace regard;
  [[maybe_unused]] const TileUnit<amx> unit;
  const Arguments& a = *arguments;
  const BiasShared shared = bias_shared(a);
  // The parts of the keys lie outermost: with a causal mask the first ones are the longest.
  const i64 batches = shared.batches ? 1 : a.b, heads = shared.heads ? 1 : a.hk;
  const i64 split = block / (batches * heads);
  const i64 batch = block / heads % batches, head = block % heads;
  const i64 first_key = split * a.split_keys, end_key = first_key + a.split_keys;

  const i64 group = a.hq / a.hk;

  if (shared.any())
    for (i64 h = head * group; h < (shared.heads ? 1 : (head + 1) * group); ++h)
      clear_bias_image(a, batch, h, first_key, smaller(end_key, a.sk));
  for (i64 b = batch; b < (shared.batches ? a.b : batch + 1); ++b)
    for (i64 h = head; h < (shared.heads ? a.hk : head + 1); ++h)
      Backward{a, static_cast<float*>(scratch), b, h, split}.run(first_key, end_key);
}
