// A warpgroup that multiplies: 64 keys of a block against its tiles of queries.
//
// Scores and dP are computed transposed, so that P and dS are left operands of the products with dO and Q as
// they are in registers. All consumers share their dS for dQ, through shared memory, and each computes a
// part of dQ. A thread stalls until most of a product that it begins is under way, so products are begun a
// few at a time, between computations of the threads: half of dP, dK of the previous tile, dQ while the next
// scores begin.
#pragma once

#include "kernels/sm90/backward_products.h"
#include "kernels/sm90/backward_scores.h"
#include "kernels/sm90/backward_store.h"
#include "kernels/sm90/ptx/tma.h"

namespace regard {

class BackwardConsumer {
 public:
  REGARD_DEVICE BackwardConsumer(const BackwardArguments& a, const Sm90BackwardWork& work,
                                 Sm90BackwardShared& shared, const Sm90BackwardMemory& memory, i32 warpgroup)
      : a_(a),
        work_(work),
        shared_(shared),
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
                                          a_.p_scale);
  }

 private:
  /// ptxas tracks pending products only along straight-line code, and waits for each to end where it loses
  /// track of them: waits for barriers come before the first product that is waited for in part, and the
  /// only thing pending across the loop's back edge is a sum that nothing but products touches.
  REGARD_DEVICE void multiply(float (&dk)[columns_k / 2], float (&dv)[columns_v / 2]) const {
    const SeenQueries seen(Window(a_, work_.sequence), first_key_, key_);
    const BackwardScoreScale scale(a_);
    BackwardScores s, dp;
    LeftFragments p;
    float dq[grad_q_columns / 2];
    QueryTileCursor tile(work_);
    Ring<q_stages> ring_q;
    Ring<grad_o_stages> ring_o;
    const auto weights = [&] {
      return Weights(scale, memory_.lse(ring_q.slot), memory_.delta(ring_o.slot), seen, tile.first_row());
    };
    shared_.k_full.wait(0);
    shared_.q_full[0].wait(0);
    begin_scores(s, 0);
    wgmma_wait<0>();
    shared_.v_full.wait(0);
    shared_.grad_o_full[0].wait(0);
    begin_dp<0>(dp, 0);
    begin_dp<1>(dp, 0);
    {
      const Weights of_tile = weights();
      of_tile.make_p<0>(s, p);
      of_tile.make_p<1>(s, p);
    }
    wgmma_wait<0>();
    i32 last_q = 0;  // the slot of the previous tile
#pragma unroll 1
    for (u32 turn = 0;; ++turn) {  // of dS and dQ
      {
        LeftFragments ds;
        weights().make_ds(s, dp, p, ds);
        store_ds(ds_address(turn), ds);
      }
      begin_of_queries(dv, p, memory_.grad_o(ring_o.slot));
      wgmma_wait<1>();
      if (turn > 0) arrive_by_warp(shared_.q_empty[last_q]);
      named_sync(ds_there);
      const i32 last_o = ring_o.slot;
      last_q = ring_q.slot;
      ring_q.advance();
      ring_o.advance();
      tile.advance(work_);
      shared_.grad_q_empty[warpgroup_].wait(turn % 2 ^ 1);
      if (!tile.exists(work_)) {
        begin_dq(dq, turn);
        begin_dk(dk, last_q, turn);
        wgmma_wait<0>();
        return send(dq);
      }
      shared_.q_full[ring_q.slot].wait(ring_q.parity);
      shared_.grad_o_full[ring_o.slot].wait(ring_o.parity);
      begin_dq(dq, turn);
      begin_scores(s, ring_q.slot);
      wgmma_wait<1>();
      arrive_by_warp(shared_.grad_o_empty[last_o]);
      send(dq);
      begin_dp<0>(dp, ring_o.slot);
      wgmma_wait<1>();
      const Weights of_tile = weights();
      of_tile.make_p<0>(s, p);
      begin_dp<1>(dp, ring_o.slot);
      of_tile.make_p<1>(s, p);
      begin_dk(dk, last_q, turn);
      wgmma_wait<1>();
    }
  }

  /// Begins the scores, transposed.
  REGARD_DEVICE void begin_scores(BackwardScores& s, i32 slot) const {
    begin_transposed<0, steps_d>(s, own_keys(memory_.k()), memory_.q(slot));
  }
  /// Begins dP, transposed: the first half of its steps, or the second.
  template <i32 half>
  REGARD_DEVICE void begin_dp(BackwardScores& dp, i32 slot) const {
    constexpr i32 first = (steps_dv + 1) / 2;
    begin_transposed<half == 0 ? 0 : first, half == 0 ? first : steps_dv>(dp, own_keys(memory_.v()),
                                                                          memory_.grad_o(slot));
  }
  REGARD_DEVICE u32 own_keys(u32 tile) const { return tile + warpgroup_ * group_rows * box_bytes; }
  /// Begins dK += dS^T Q, with dS in shared memory, as registers hold the next one by then.
  REGARD_DEVICE void begin_dk(float (&dk)[columns_k / 2], i32 slot, u32 turn) const {
    const MatrixDescriptor a(ds_address(turn), 0), b(memory_.q(slot), block_q * box_bytes);
    wgmma_fence();
    multiply_tiles<block_q / step_rows, Transposed::both, true>(
        dk, [&](i32 i) { return a.low_at(i * step_rows * box_bytes); },
        [&](i32 i) { return b.low_at(i * step_rows * box_bytes); });
    wgmma_commit();
  }

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

  /// Leaves dQ of a tile in shared memory, which has room, for the warp that adds it to the sums.
  REGARD_DEVICE void send(const float (&dq)[grad_q_columns / 2]) const {
    const u32 address = memory_.grad_q(warpgroup_) + threadIdx.x % 128 * 16;
#pragma unroll
    for (i32 i = 0; i < grad_q_columns / 8; ++i)
      store_shared(address + i * 128 * 16, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    make_visible_to_products();
    arrive_by_warp(shared_.grad_q_full[warpgroup_]);
  }

  const BackwardArguments& a_;
  const Sm90BackwardWork& work_;
  Sm90BackwardShared& shared_;
  const Sm90BackwardMemory& memory_;
  i32 warpgroup_;  // 0 .. consumers - 1
  i32 first_key_;  // of the warpgroup
  i32 key_;        // the thread's first one; the other is 8 further
};

}  // namespace regard
