// The constraints on the sizes of a tile. The kernels assert them, and the plan rejects other tiles with the
// same functions.
#pragma once

#include "kernels/cpu/backward_scratch.h"
#include "kernels/cpu/forward_layout.h"

namespace regard {

/// What the sizes depend on besides the tile: the target, and how it multiplies the problem's type
/// (product.h).
struct TileMachine {
  int lanes;        // floats of a vector
  int registers;    // of vectors
  bool by_element;  // an instruction multiplies by one element of a vector
  bool amx, vnni;
  int pieces;
  i64 bytes;  // of an element of Q
  i64 d, dv;
  bool words;  // bits or dropout: 32 columns of them are one word

  constexpr bool many_registers() const { return registers >= 32; }
  /// Sums that are kept in registers: 12 of 16 registers, and 16 of 32. 24 would fit, but are no faster,
  /// leave fewer registers for work that overlaps a product, and take longer to compile. Where products are
  /// by element, a load of A serves as many steps as it has lanes: 8 rows by 2 vectors of 4 lanes need the
  /// fewest.
  constexpr int sum_rows() const { return by_element ? 8 : many_registers() ? 4 : 6; }
  constexpr int sum_vectors() const { return many_registers() && !by_element ? 4 : 2; }
  /// Keys are computed in multiples of this.
  constexpr int key_step() const { return amx ? 32 : sum_rows(); }
};

/// The valid sizes: multiples of `unit`, at least `least`, that divide `whole` unless it is 0. If it is not
/// 0, `whole` and `unit` are powers of two.
struct SizeRule {
  i64 unit = 1, least = 1, whole = 0;

  constexpr bool takes(i64 size) const {
    return size >= least && size % unit == 0 && (whole == 0 || whole % size == 0);
  }
};

struct TileRules {
  SizeRule block_q, block_k;
};

constexpr i64 common_multiple(i64 a, i64 b) {
  i64 multiple = a;
  while (multiple % b != 0) multiple += a;
  return multiple;
}

/// Keys whose scores for `rows` rows take at least this many bytes.
constexpr i64 keys_of_scores(i64 bytes, i64 rows) {
  return (bytes + rows * 4 - 1) / (rows * 4);
}

/// Rows of Q and of O, and pieces of V, are transposed in the memory of scores. With AMX that memory also
/// holds weights and 64 more scores.
constexpr TileRules forward_rules(const TileMachine& m) {
  const i64 keys = common_multiple(2 * m.key_step(), 2 * m.lanes), columns = CpuForwardLayout::padded(m.dv);
  const i64 of_q = m.pieces == 1 ? m.d : (m.d + 31) / 32 * 32;
  i64 memory = m.pieces * m.lanes * of_q * m.bytes;
  if (m.amx && memory < m.lanes * columns * 4) memory = m.lanes * columns * 4;
  if (m.pieces > 1 && memory < 8 * m.lanes * columns) memory = 8 * m.lanes * columns;
  i64 least = keys_of_scores(memory, CpuForwardLayout::tile);
  if (m.amx && least < 128) least = 128;
  return {.block_q = {.unit = CpuForwardLayout::tile},
          .block_k = {.unit = m.words ? common_multiple(keys, 32) : keys, .least = least}};
}

/// With AMX a block of queries is two of its units, and rows of dQ and pieces of K are transposed in the
/// memory of scores.
constexpr TileRules backward_rules(const TileMachine& m) {
  const i64 queries = m.sum_vectors() * m.lanes, columns = padded_columns(m.d);
  i64 memory = m.amx ? m.lanes * columns * 4 : 0;
  if (m.pieces > 1) memory = 8 * m.lanes * columns;
  const SizeRule block_q = m.amx ? SizeRule{.unit = 64, .whole = 64} : SizeRule{.unit = queries};
  return {
      .block_q = block_q,
      .block_k = {.unit = common_multiple(m.key_step(), 2 * m.lanes), .least = keys_of_scores(memory, 64)}};
}

/// Query rows of a K/V head that decode processes at once share its vectors or, by element, have several.
/// Keys come in whole vectors, pairs of keys in two, and up to long_chain keys are added one after the other.
constexpr SizeRule decode_pack(const TileMachine& m) {
  return {.whole = m.by_element ? 4 * m.lanes : m.lanes};
}
constexpr SizeRule decode_keys(const TileMachine& m) {
  return {.unit = (m.vnni || m.by_element ? 2 : 1) * m.lanes, .whole = long_chain};
}

}  // namespace regard
