// A warpgroup that multiplies: 64 keys of a block against its tiles of queries.
//
// Scores and dP are computed transposed, so that P and dS are left operands of the products with dO and Q as
// they are in registers. The consumers share their dS for dQ, through shared memory, and each computes a part
// of dQ. They run in ping-pong: while one computes P and dS, the other has the matrix units.
#pragma once

#include "kernels/sm90/backward_masks.h"
#include "kernels/sm90/backward_store.h"
#include "kernels/sm90/ptx/tma.h"

namespace regard {

class BackwardConsumer {
 public:
  REGARD_DEVICE BackwardConsumer(const BackwardArguments& a, const Sm90BackwardWork& work,
                                 Sm90BackwardShared& shared, Sm90BackwardMasks& masks,
                                 const Sm90BackwardMemory& memory, i32 warpgroup)
      : a_(a),
        work_(work),
        shared_(shared),
        masks_(masks),
        memory_(memory),
        warpgroup_(warpgroup),
        first_key_(work.first_key + warpgroup * group_rows),
        key_(first_key_ + static_cast<i32>(threadIdx.x / wave % 4 * 16 + threadIdx.x % wave / 4)) {}

  REGARD_DEVICE void run() const {
    float dk[columns_k / 2] = {}, dv[columns_v / 2] = {};
    if (QueryTileCursor(work_).exists(work_)) multiply(dk, dv);
    if (!work_.has_keys()) return;
    store_gradient<config::d, columns_k>(a_, work_, {a_.grad_k_sum, a_.grad_k_columns, a_.grad_k}, key_, dk,
                                         a_.scale / a_.ds_scale);
    store_gradient<config::dv, columns_v>(a_, work_, {a_.grad_v_sum, a_.grad_v_columns, a_.grad_v}, key_, dv,
                                          a_.dropout_scale * a_.p_scale);
  }

 private:
  /// In its turn a consumer computes dV and dK of a tile, its part of dQ, and the next tile's scores, and
  /// begins the next dP. The first consumer is half a tile ahead: in its turn the second one's dS of the tile
  /// is not there yet, so its part of dQ is that of the previous tile. By the end of a turn dQ is done, so
  /// the dS that it was computed from may be overwritten.
  ///
  /// ptxas tracks pending products along branches that neither contain others nor read sums.
  REGARD_DEVICE void multiply(float (&dk)[columns_k / 2], float (&dv)[columns_v / 2]) const {
    const SeenQueries seen(Window(a_, work_.sequence), first_key_, key_);
    const BackwardScoreScale scale(a_);
    BackwardScores s, dp;
    LeftFragments p, ds;
    float dq[grad_q_columns / 2];
    QueryTileCursor tile(work_);
    Ring<q_stages> ring_q;
    Ring<grad_o_stages> ring_o;
    u32 number = 0;                            // of the tile
    const u32 late = warpgroup_ == 0 ? 1 : 0;  // by how many tiles its dQ is late
    const auto make_p_and_ds = [&] {
      const QueryTile of = tile.at(work_);
      const TileSlope slope(a_, work_.sequence, of.head, of.first_row(), key_);
      KeptWeights kept;
      if constexpr (config::dropout) {
        KeptWeights::draw(shared_.kept[warpgroup_], random_of(a_, work_.batch, of.head), of.first_row(),
                          first_key_, a_.dropout_keep);
        warpgroup_sync(kept_of_consumer + warpgroup_);
        kept = KeptWeights(shared_.kept[warpgroup_]);
      }
      const u32 lse = memory_.lse(ring_q.slot), delta = memory_.delta(ring_o.slot);
      const Weights of_tile = [&] {
        if constexpr (config::bits)
          return Weights(scale, slope, kept, lse, delta, masks_.take(ring_q.slot, ring_q.parity, warpgroup_));
        else
          return Weights(scale, slope, kept, lse, delta, seen, of.first_row());
      }();
      wgmma_wait<1>();
      of_tile.make_p<0>(s, p);
      of_tile.make_p<1>(s, p);
      // With a soft cap there are not enough registers if ptxas interleaves P with dS. It does not move code
      // across a loop, such as this wait for a barrier whose phase has already completed.
      if constexpr (config::softcap) shared_.grad_o_full[ring_o.slot].wait(ring_o.parity);
      wgmma_wait<0>();
      of_tile.make_ds(s, dp, p, ds);
      store_ds(ds_address(number), ds);
    };
    shared_.k_full.wait(0);
    shared_.q_full[0].wait(0);
    shared_.v_full.wait(0);
    shared_.grad_o_full[0].wait(0);
    if (warpgroup_ > 0) await_turn();
    begin_scores(s, 0);
    begin_dp(dp, 0);
    end_turn();
    make_p_and_ds();
#pragma unroll 1
    while (true) {
      const i32 last_q = ring_q.slot, last_o = ring_o.slot;
      ring_q.advance();
      ring_o.advance();
      tile.advance(work_);
      await_turn();
      if (!tile.exists(work_)) {
        begin_of_queries(dv, p, memory_.grad_o(last_o));
        begin_of_queries(dk, ds, memory_.q(last_q));
        begin_dq(dq, number - late);
        wgmma_wait<0>();
        break;
      }
      begin_of_queries(dv, p, memory_.grad_o(last_o));
      begin_of_queries(dk, ds, memory_.q(last_q));
      begin_dq(dq, number - late);
      wgmma_wait<1>();
      arrive_by_warp(shared_.grad_o_empty[last_o]);
      arrive_by_warp(shared_.q_empty[last_q]);
      shared_.q_full[ring_q.slot].wait(ring_q.parity);
      begin_scores(s, ring_q.slot);
      wgmma_wait<1>();
      send(dq, number - late, number >= late);
      shared_.grad_o_full[ring_o.slot].wait(ring_o.parity);
      begin_dp(dp, ring_o.slot);
      end_turn();
      ++number;
      make_p_and_ds();
    }
    end_turn();
    send(dq, number - late, number >= late);
    if (late == 0) return;
    await_turn();
    begin_dq(dq, number);
    wgmma_wait<0>();
    send(dq, number, true);
  }

  REGARD_DEVICE void await_turn() const { named_sync(turn_of_consumer + warpgroup_); }
  REGARD_DEVICE void end_turn() const { named_arrive(turn_of_consumer + 1 - warpgroup_); }

  /// Begins the scores, or dP, transposed.
  REGARD_DEVICE void begin_scores(BackwardScores& s, i32 slot) const {
    begin_transposed<steps_d>(s, own_keys(memory_.k()), memory_.q(slot));
  }
  REGARD_DEVICE void begin_dp(BackwardScores& dp, i32 slot) const {
    begin_transposed<steps_dv>(dp, own_keys(memory_.v()), memory_.grad_o(slot));
  }
  REGARD_DEVICE u32 own_keys(u32 tile) const { return tile + warpgroup_ * group_rows * box_bytes; }
  /// Begins this consumer's part of dQ = dS K.
  REGARD_DEVICE void begin_dq(float (&dq)[grad_q_columns / 2], u32 turn) const {
    const i32 row_group = warpgroup_ % grad_q_row_groups,
              column = warpgroup_ / grad_q_row_groups * grad_q_columns;
    constexpr i32 box_columns = Sm90BackwardLayout::box_columns;
    const MatrixDescriptor a(memory_.ds(turn % ds_stages) + row_group * group_rows * box_bytes, 0),
        b(memory_.k() + column / box_columns * block_k * box_bytes +
              column % box_columns * static_cast<i32>(Sm90BackwardLayout::element_bytes),
          block_k * box_bytes);
    wgmma_fence();
    multiply_tiles<block_k / step_rows, Transposed::b>(
        dq,
        [&](i32 i) {
          return a.low_at(i / steps_per_box * block_q * box_bytes + i % steps_per_box * step_bytes);
        },
        [&](i32 i) { return b.low_at(i * step_rows * box_bytes); });
    wgmma_commit();
  }

  /// The address of dS of a consumer's keys: a row of 64 for each query.
  REGARD_DEVICE u32 ds_address(u32 turn) const {
    return memory_.ds(turn % ds_stages) + warpgroup_ * block_q * box_bytes;
  }

  /// Stores dQ of tile number `of` in shared memory, as soon as there is room, for the warp that adds it to
  /// the sums. In a consumer's first turn there is no tile yet: the store then goes to memory that is not in
  /// use, and that warp is not notified. The store is unconditional, because the sums of products must not be
  /// read within a branch.
  REGARD_DEVICE void send(const float (&dq)[grad_q_columns / 2], u32 of, bool is_of_tile) const {
    if (is_of_tile) shared_.grad_q_empty[warpgroup_].wait(of % 2 ^ 1);
    const u32 address = memory_.grad_q(warpgroup_) + threadIdx.x % 128 * 16;
#pragma unroll
    for (i32 i = 0; i < grad_q_columns / 8; ++i)
      store_shared(address + i * 128 * 16, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    make_visible_to_products();
    if (is_of_tile) arrive_by_warp(shared_.grad_q_full[warpgroup_]);
  }

  const BackwardArguments& a_;
  const Sm90BackwardWork& work_;
  Sm90BackwardShared& shared_;
  Sm90BackwardMasks& masks_;
  const Sm90BackwardMemory& memory_;
  i32 warpgroup_;  // 0 .. consumers - 1
  i32 first_key_;  // of the warpgroup
  i32 key_;        // the thread's first one; the other is 8 further
};

}  // namespace regard
