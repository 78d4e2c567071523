// What brings tiles to a block of backward.cu by TMA: K and V once, then Q with LSE, and dO with D.
#pragma once

#include "kernels/sm90/backward_shared.h"
#include "kernels/sm90/ptx/tma.h"

namespace regard {

REGARD_DEVICE bool ragged(const Arguments& a) {
  return a.offsets_q != nullptr || a.lengths_q != nullptr || a.lengths_k != nullptr;
}

/// The rows of one sequence in a tensor, as its map finds them.
struct MappedRows {
  const TensorMap& map;
  bool ragged;
  i32 batch, first, count;  // ragged: of all rows in the map, those of the sequence

  REGARD_DEVICE MappedRows(const TensorMap& map_, const Rows& rows, const BackwardArguments& a,
                           const Work& work, bool of_queries)
      : map(map_), ragged(regard::ragged(a)), batch(work.batch), first(0), count(0) {
    if (!ragged) return;
    const Sequence& s = work.sequence;
    // Varlen tensors have no batches; else rows divide them.
    const i64 before = rows.batch == 0 ? 0 : s.batch * (rows.batch / rows.row);
    first = static_cast<i32>(before + (of_queries ? s.first_q : s.first_k));
    count = static_cast<i32>(of_queries ? s.sq : s.sk);
  }

  /// A tile in boxes, one behind the other. Rows past the end of the sequence are zeros.
  template <i32 rows>
  REGARD_DEVICE void load(u32 to, i32 bytes, const Barrier& full, i32 head, i32 row) const {
#pragma unroll 1
    for (i32 box = 0; box < bytes / (rows * box_bytes); ++box) {
      const u32 place = to + box * rows * box_bytes;
      const i32 column = box * static_cast<i32>(Sm90BackwardLayout::box_columns);
      if (ragged)
        load_ragged_box(place, map, full, column, row, first, count, head);
      else
        load_box(place, map, full, column, row, head, batch);
    }
  }
};

/// By one thread.
class Loader {
 public:
  REGARD_DEVICE Loader(const TensorMap& q, const TensorMap& k, const TensorMap& v, const TensorMap& grad_o,
                       const BackwardArguments& a, const Work& work, const Memory& memory)
      : a_(a),
        work_(work),
        memory_(memory),
        q_(q, a.q, a, work, true),
        k_(k, a.k, a, work, false),
        v_(v, a.v, a, work, false),
        grad_o_(grad_o, a.grad_o, a, work, true),
        tile_(work) {}

  /// K and V, and as many tiles of queries as there are stages.
  REGARD_DEVICE void begin() {
    Barriers& barriers = memory_.barriers;
    barriers.k_full.expect(layout.k);
    k_.load<block_k>(memory_.k(), layout.k, barriers.k_full, work_.kv_head, work_.first_key);
    load_q();
    barriers.v_full.expect(layout.v);
    v_.load<block_k>(memory_.v(), layout.v, barriers.v_full, work_.kv_head, work_.first_key);
    load_grad_o();
    advance();
#pragma unroll 1
    for (i32 i = 1; i < stages; ++i) load_next();
  }

  /// The next tile of queries, if there is one, into the place of the one `stages` before.
  REGARD_DEVICE void load_next() {
    if (!tile_.exists(work_)) return;
    load_q();
    load_grad_o();
    advance();
  }

 private:
  REGARD_DEVICE void load_q() const {
    load(q_, memory_.q(ring_.stage), layout.q, a_.lse_log2, memory_.lse(ring_.stage),
         memory_.barriers.q_full[ring_.stage]);
  }
  REGARD_DEVICE void load_grad_o() const {
    load(grad_o_, memory_.grad_o(ring_.stage), layout.grad_o, a_.delta, memory_.delta(ring_.stage),
         memory_.barriers.grad_o_full[ring_.stage]);
  }
  /// A tile of queries, and a number of each row.
  REGARD_DEVICE void load(const MappedRows& rows, u32 to, i32 bytes, const float* numbers, u32 numbers_to,
                          Barrier& full) const {
    constexpr u32 numbers_bytes = static_cast<u32>(layout.row_numbers);
    full.expect(bytes + numbers_bytes);
    rows.load<block_q>(to, bytes, full, tile_.head, tile_.first_row());
    load_bytes(numbers_to, numbers + first_padded_row(a_, work_.sequence, tile_.head) + tile_.first_row(),
               numbers_bytes, full);
  }
  REGARD_DEVICE void advance() {
    tile_.advance(work_);
    ring_.advance();
  }

  const BackwardArguments& a_;
  const Work& work_;
  const Memory& memory_;
  MappedRows q_, k_, v_, grad_o_;
  Tile tile_;
  Ring<stages> ring_;
};

}  // namespace regard
