// The warp that takes work and loads its tiles of Q, K and V.
#pragma once

#include "kernels/sm90/ptx/tma.h"
#include "kernels/sm90/shared.h"

namespace regard {

/// One tensor of a block of work, as its tensor map finds it.
template <bool ragged>
struct Source {
  const TensorMap& map;
  const Sequence& sequence;
  i32 head;
  i32 first, count;  // ragged: rows of the map before the sequence, and of it

  /// A tile in boxes, one behind the other. Rows past the end of the sequence are zeros.
  template <i32 bytes, i32 rows>
  REGARD_DEVICE void load(u32 to, Barrier& full, i32 row) const {
    full.expect(bytes);
#pragma unroll
    for (i32 box = 0; box < bytes / (rows * box_bytes); ++box) {
      const u32 place = to + box * rows * box_bytes;
      const i32 column = box * layout.columns;
      if constexpr (ragged)
        load_ragged_box(place, map, full, column, row, first, count, head);
      else
        load_box(place, map, full, column, row, head, sequence.batch);
    }
  }
};

class Producer {
 public:
  REGARD_DEVICE Producer(const TensorMap& q, const TensorMap& k, const TensorMap& v, const Arguments& a,
                         Shared& shared, Memory memory)
      : q_(q), k_(k), v_(v), a_(a), shared_(shared), memory_(memory), order_(a, shared.ranking) {}

  /// Rows that overflowed in a turn are done again two turns later, before anything new.
  REGARD_DEVICE void run() {
    if (first_lane) {
      prefetch(q_);
      prefetch(k_);
      prefetch(v_);
    }
    u32 fresh = blockIdx.x;
    Work next{};
    if (fresh < order_.all()) next = order_.at(fresh);
#pragma unroll 1
    while (true) {
      wait_for_place(turn_);
      if (again(turn_ % 2)) {
        hand_out(shared_.turn[turn_ % 2].work, true);
      } else if (fresh < order_.all()) {
        u32 taken = fresh;
        if (first_lane && (Sm90ForwardLayout::always_counts(block_q) || a_.counter != nullptr))
          taken = atomicInc(a_.counter, order_.all() - 1);  // 0 again after the last
        hand_out(next, false);
        fresh = gridDim.x + __shfl_sync(whole_warp, taken, 0);
        if (fresh < order_.all()) next = order_.at(fresh);
      } else {
        wait_for_place(turn_ + 1);
        if (!again((turn_ + 1) % 2)) break;
        hand_out(shared_.turn[(turn_ + 1) % 2].work, true);
      }
    }
    hand_out_end();
  }

 private:
  /// Until the turn two before `next` has ended.
  REGARD_DEVICE void wait_for_place(u32 next) { shared_.turn_done[next % 2].wait(next / 2 % 2 ^ 1); }

  /// Whether rows of the last turn in `slot` overflowed: then this turn does them again.
  REGARD_DEVICE bool again(u32 slot) {
    const u32 warp = threadIdx.x;
    u32 rows = 0;
    if (warp < consumer_warps) {
      rows = shared_.overflowed[slot][warp];
      shared_.overflowed[slot][warp] = 0;
      shared_.rows[turn_ % 2][warp] = rows;
    }
    return __any_sync(whole_warp, rows != 0);
  }

  REGARD_DEVICE void hand_out(const Work& work, bool careful) {
    Turn& turn = shared_.turn[turn_ % 2];
    __syncwarp();
    if (first_lane) {
      turn.work = work;
      turn.kv_head = work.head / (static_cast<i32>(a_.hq) / static_cast<i32>(a_.hk));
      if constexpr (packed_heads)
        turn.end_head = (turn.kv_head + 1) * (static_cast<i32>(a_.hq) / static_cast<i32>(a_.hk));
      turn.tiles = tiles_of(work.first_row, Sight(work.sequence, a_));
      turn.careful = careful;
      shared_.turn_full[turn_ % 2].arrive();
    }
    __syncwarp();
    if (ragged(a_))
      load<true>(turn);
    else
      load<false>(turn);
    ++turn_;
  }
  REGARD_DEVICE void hand_out_end() {
    __syncwarp();
    if (!first_lane) return;
    shared_.turn[turn_ % 2].work.head = -1;
    shared_.turn_full[turn_ % 2].arrive();
  }

  /// What `turn` says is read where it is needed: this warp has few registers.
  template <bool ragged>
  REGARD_DEVICE void load(const Turn& turn) {
    bool q_loaded = false;
#pragma unroll 1
    for (i32 tile = turn.tiles.start(); tile >= 0; tile = turn.tiles.next(tile)) {
      const i32 stage = ring_.stage;
      shared_.k_empty[stage].wait(ring_.parity ^ 1);
      if (first_lane)
        keys<ragged>(turn, k_, shared_.rows_per_batch[1])
            .template load<layout.k, block_k>(memory_.k(stage), shared_.k_full[stage], tile * block_k);
      // Behind the first K, which need not wait for the end of the last work.
      if (!q_loaded) load_q<ragged>(turn);
      q_loaded = true;
      shared_.v_empty[stage].wait(ring_.parity ^ 1);
      if (first_lane)
        keys<ragged>(turn, v_, shared_.rows_per_batch[2])
            .template load<layout.v, block_k>(memory_.v(stage), shared_.v_full[stage], tile * block_k);
      ring_.advance();
    }
  }

  /// Each warpgroup's own rows, as soon as it is done with those before.
  template <bool ragged>
  REGARD_DEVICE void load_q(const Turn& turn) {
    const i32 stage = ring_q_.stage;
    const Sequence& s = turn.work.sequence;
#pragma unroll 1
    for (i32 i = 0; i < consumers; ++i) {
      shared_.q_empty[stage][i].wait(ring_q_.parity ^ 1);
      if (!first_lane) continue;
      const Row first(turn.work, i * group_rows);
      const Source<ragged> q{q_, s, first.head, ragged ? s.batch * shared_.rows_per_batch[0] + s.first_q : 0,
                             s.sq};
      q.template load<layout.q / consumers, group_rows>(memory_.q(stage, i), shared_.q_full[stage][i],
                                                        first.row);
    }
    ring_q_.advance();
  }

  template <bool ragged>
  REGARD_DEVICE Source<ragged> keys(const Turn& turn, const TensorMap& map, i32 rows_per_batch) const {
    const Sequence& s = turn.work.sequence;
    return {map, s, turn.kv_head, ragged ? s.batch * rows_per_batch + s.first_k : 0, s.sk};
  }

  const TensorMap &q_, &k_, &v_;
  const Arguments& a_;
  Shared& shared_;
  Memory memory_;
  Order order_;
  Ring<q_stages> ring_q_;
  Ring<stages> ring_;
  u32 turn_ = 0;
  const bool first_lane = threadIdx.x == 0;
};

}  // namespace regard
