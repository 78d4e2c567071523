// The sizes that the backward kernels share with the plan: grids, sums, and the scratch of one thread of the
// main kernel.
#pragma once

namespace regard {

/// What the sizes depend on. A depth is the number of operand elements for that many numbers; `vnni`: they
/// are pairs of bf16; `amx`: the tile unit multiplies them, in so many pieces (product.h).
struct BackwardShape {
  long long d, dv, depth_d, depth_dv, block_q, block_k, depth_q, depth_k;
  bool vnni, amx;
  int pieces;
  bool bits, bias, dbias, softcap, dropout;
};

/// Rows that one block of backward_delta and backward_convert handles.
constexpr long long rows_per_block = 64;

/// The size of one progress counter of a block of keys (backward_order.h).
constexpr long long progress_bytes = 64;

/// Columns of an fp32 accumulator, and numbers of grad_q_sum for each row of Q: whole vectors on every
/// target.
constexpr long long padded_columns(long long n) {
  return (n + 15) / 16 * 16;
}

/// Where each array starts, in floats. Everything is a multiple of 16 floats.
struct BackwardScratch {
  // Operands of the block of keys and of the block of queries: `rows` is an A operand, `columns` and
  // `transposed` are B operands (product.h).
  long long k_rows, k_columns, v_rows;
  long long q_columns, q_transposed, grad_o_columns, grad_o_transposed;
  // P and dS, [key][query], as A operands; dS also with keys in pairs (a B operand for the tile unit).
  long long p, grad_s, grad_s_vnni;
  // The distance from an operand to its low pieces, which are stored after it.
  long long low;
  // Sums, and per-query values.
  long long grad_k, grad_v, lse, lse_log2, delta;
  // The gradient of a bias in fp32: a separate array if dS is stored in pairs, or passes through a soft cap
  // first. Then memory for other features.
  long long grad_bias, bias, bits, dropout;
  // What the tile unit computes for the whole block: products, their weights and slopes, and dQ^T in tiles.
  long long scores, weights, slopes, grad_q;
  long long floats;

  constexpr explicit BackwardScratch(const BackwardShape& shape) : floats(0) {
    // The B operands are in panels of up to 64 columns, and the last panel is padded.
    const auto panels = [](long long n) { return (n + 63) / 64 * 64; };
    const long long tile = shape.block_k * shape.block_q;
    k_rows = take(shape.block_k * shape.depth_d);
    k_columns = take(shape.depth_k * panels(shape.d));
    v_rows = take(shape.block_k * shape.depth_dv);
    q_columns = take(shape.depth_q * panels(shape.d));
    q_transposed = take(shape.depth_d * shape.block_q);
    grad_o_columns = take(shape.depth_q * panels(shape.dv));
    grad_o_transposed = take(shape.depth_dv * shape.block_q);
    p = take(shape.block_k * shape.depth_q);
    grad_s = take(shape.block_k * shape.depth_q);
    grad_s_vnni = take(shape.vnni ? shape.depth_k * shape.block_q : 0);
    low = floats;
    floats *= shape.pieces;
    grad_k = take(shape.block_k * padded_columns(shape.d));
    grad_v = take(shape.block_k * padded_columns(shape.dv));
    lse = take(shape.block_q);
    lse_log2 = take(shape.block_q);
    delta = take(shape.block_q);
    grad_bias = shape.dbias && (shape.vnni || shape.softcap) ? take(tile) : grad_s;
    bias = take(shape.bias ? tile : 0);
    // The block of keys may begin and end inside a 32-bit word.
    bits = take(shape.bits ? (shape.block_k / 32 + 2) * shape.block_q : 0);
    scores = take(shape.amx ? tile : 0);
    weights = take(shape.amx ? tile : 0);
    slopes = take(shape.amx && shape.softcap ? tile : 0);
    grad_q = take(shape.amx ? padded_columns(shape.d) * shape.block_q : 0);
    dropout = take(shape.dropout ? (shape.block_k / 64 + 2) * 32 * shape.block_q : 0);
  }

 private:
  constexpr long long take(long long count) {
    const long long start = floats;
    floats += (count + 15) / 16 * 16;
    return start;
  }
};

}  // namespace regard
