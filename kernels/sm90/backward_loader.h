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
  i32 ragged, batch;
  i32 first, count;  // ragged: of all rows in the map, those of the sequence

  REGARD_DEVICE MappedRows(const Rows& rows, const BackwardArguments& a, const Work& work, bool of_queries)
      : ragged(regard::ragged(a)), batch(work.batch), first(0), count(0) {
    if (!ragged) return;
    const Sequence& s = work.sequence;
    // Varlen tensors have no batches; else rows divide them.
    const i64 before = rows.batch == 0 ? 0 : s.batch * (rows.batch / rows.row);
    first = static_cast<i32>(before + (of_queries ? s.first_q : s.first_k));
    count = static_cast<i32>(of_queries ? s.sq : s.sk);
  }

  /// A tile in boxes, one behind the other. Rows past the end of the sequence are zeros.
  template <i32 rows>
  REGARD_DEVICE void load(const TensorMap& map, u32 to, i32 bytes, const Barrier& full, i32 head,
                          i32 row) const {
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

/// What is loaded when, by one thread. It stands in shared memory, as the warpgroup that loads has no
/// registers for it.
struct LoaderState {
  Work work;
  MappedRows q, k, v, grad_o;
  Tile next;    // to load
  Tile adding;  // whose dQ is added
  Ring<stages> ring;

  REGARD_DEVICE LoaderState(const BackwardArguments& a, const Work& work_)
      : work(work_),
        q(a.q, a, work, true),
        k(a.k, a, work, false),
        v(a.v, a, work, false),
        grad_o(a.grad_o, a, work, true),
        next(work),
        adding(work) {}
};
static_assert(sizeof(Barriers) + sizeof(LoaderState) <= Sm90BackwardLayout::common);

class Loader {
 public:
  REGARD_DEVICE Loader(const TensorMap& q, const TensorMap& k, const TensorMap& v, const TensorMap& grad_o,
                       const BackwardArguments& a, const Memory& memory)
      : q_(q),
        k_(k),
        v_(v),
        grad_o_(grad_o),
        a_(a),
        memory_(memory),
        state_(*reinterpret_cast<LoaderState*>(&memory.barriers + 1)) {}

  /// K and V, and as many tiles of queries as there are stages.
  REGARD_DEVICE void begin(const Work& work) const {
    state_ = LoaderState(a_, work);
    Barriers& barriers = memory_.barriers;
    barriers.k_full.expect(layout.k);
    state_.k.load<block_k>(k_, memory_.k(), layout.k, barriers.k_full, work.kv_head, work.first_key);
    load_q();
    barriers.v_full.expect(layout.v);
    state_.v.load<block_k>(v_, memory_.v(), layout.v, barriers.v_full, work.kv_head, work.first_key);
    load_grad_o();
    advance();
#pragma unroll 1
    for (i32 i = 1; i < stages; ++i) load_next();
  }

  /// The next tile of queries, if there is one, into the place of the one `stages` before.
  REGARD_DEVICE void load_next() const {
    if (!state_.next.exists(state_.work)) return;
    load_q();
    load_grad_o();
    advance();
  }

  /// Adds what is at `from` to a slice of the tile's dQ; the last slice ends the tile.
  REGARD_DEVICE void add_slice(u32 from, i32 slice, bool last) const {
    float* const tile = a_.grad_q_sum + padded_row(state_.adding) * static_cast<i64>(layout.d);
    add_floats(tile + slice * (static_cast<i32>(layout.grad_q) / 4), from, static_cast<u32>(layout.grad_q));
    end_stored_boxes();
    if (last) state_.adding.advance(state_.work);
  }

 private:
  REGARD_DEVICE i64 padded_row(const Tile& tile) const {
    return first_padded_row(a_, state_.work.sequence, tile.head) + tile.first_row();
  }
  REGARD_DEVICE void load_q() const {
    const i32 stage = state_.ring.stage;
    load(q_, state_.q, memory_.q(stage), layout.q, a_.lse_log2, memory_.lse(stage),
         memory_.barriers.q_full[stage]);
  }
  REGARD_DEVICE void load_grad_o() const {
    const i32 stage = state_.ring.stage;
    load(grad_o_, state_.grad_o, memory_.grad_o(stage), layout.grad_o, a_.delta, memory_.delta(stage),
         memory_.barriers.grad_o_full[stage]);
  }
  /// A tile of queries, and a number of each row.
  REGARD_DEVICE void load(const TensorMap& map, const MappedRows& rows, u32 to, i32 bytes,
                          const float* numbers, u32 numbers_to, Barrier& full) const {
    constexpr u32 numbers_bytes = static_cast<u32>(layout.row_numbers);
    full.expect(bytes + numbers_bytes);
    rows.load<block_q>(map, to, bytes, full, state_.next.head, state_.next.first_row());
    load_bytes(numbers_to, numbers + padded_row(state_.next), numbers_bytes, full);
  }
  REGARD_DEVICE void advance() const {
    state_.next.advance(state_.work);
    state_.ring.advance();
  }

  const TensorMap &q_, &k_, &v_, &grad_o_;
  const BackwardArguments& a_;
  const Memory& memory_;
  LoaderState& state_;
};

}  // namespace regard
