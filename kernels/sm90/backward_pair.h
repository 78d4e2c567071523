// Two warpgroups that multiply with the same 64 keys, whose dK and dV are too large for the registers of
// one: one computes scores, P and dV, the other dP, dS and dK; each computes a part of dQ.
//
// Scores and dP are transposed, so that P and dS are left operands of the products with dO and Q as they are
// in registers. The first gives its weights to the second through shared memory, and gets dS from there. It
// is a tile ahead, so that each computes while products of the other run.
#pragma once

#include "kernels/sm90/backward_masks.h"
#include "kernels/sm90/backward_products.h"
#include "kernels/sm90/backward_slices.h"
#include "kernels/sm90/backward_store.h"

namespace regard {

class Pair {
 public:
  REGARD_DEVICE Pair(const BackwardArguments& a, const Sm90BackwardWork& work, Sm90BackwardShared& shared,
                     Sm90BackwardMasks& masks, const Sm90BackwardMemory& memory)
      : a_(a),
        work_(work),
        shared_(shared),
        masks_(masks),
        memory_(memory),
        key_(work.first_key + static_cast<i32>(threadIdx.x / wave % 4 * 16 + threadIdx.x % wave / 4)) {}

  /// Scores, P and dV.
  REGARD_DEVICE void run_first() const {
    float dv[columns_v / 2] = {};
    if (QueryTileCursor(work_).exists(work_)) make_dv(dv);
    if (!work_.has_keys()) return;
    store_gradient<config::dv, columns_v>(a_, work_, {a_.grad_v_sum, a_.grad_v_columns, a_.grad_v}, key_, dv,
                                          a_.p_scale);
  }
  /// dP, dS and dK.
  REGARD_DEVICE void run_second() const {
    float dk[columns_k / 2] = {};
    if (QueryTileCursor(work_).exists(work_)) make_dk(dk);
    if (!work_.has_keys()) return;
    store_gradient<config::d, columns_k>(a_, work_, {a_.grad_k_sum, a_.grad_k_columns, a_.grad_k}, key_, dk,
                                         a_.scale / a_.ds_scale);
  }

 private:
  REGARD_DEVICE void make_dv(float (&dv)[columns_v / 2]) const {
    const SeenQueries seen(Window(a_, work_.sequence), work_.first_key, key_);
    const BackwardScoreScale scale(a_);
    BackwardScores s;
    LeftFragments p;
    QueryTileCursor tile(work_), last = tile;
    Ring<q_stages> ring_q;
    Ring<grad_o_stages> ring_o;
    u32 mask_parity = 0;  // of the one stage of a pair
    const auto make_p = [&] {
      const QueryTile of = tile.at(work_);
      const TileSlope slope(a_, work_.sequence, of.head, of.first_row(), key_);
      const u32 lse = memory_.lse(ring_q.slot);
      const Weights weights = [&] {
        if constexpr (config::bits)
          return Weights(scale, slope, KeptWeights(), lse, 0, masks_.take(0, mask_parity, 0));
        else
          return Weights(scale, slope, KeptWeights(), lse, 0, seen, of.first_row());
      }();
      mask_parity ^= 1;
      weights.make_p<0>(s, p);
      weights.make_p<1>(s, p);
    };
    shared_.k_full.wait(0);
    shared_.q_full[0].wait(0);
    begin_transposed<steps_d>(s, memory_.k(), memory_.q(0));
    wgmma_wait<0>();
    make_p();
    arrive_by_warp(shared_.q_empty[0]);
    give_weights(s);
    shared_.grad_o_full[0].wait(0);
    begin_of_queries(dv, p, memory_.grad_o(0));
#pragma unroll 1
    for (u32 turn = 0;; ++turn) {  // of dS and dQ, which belong to the previous tile
      const i32 last_o = ring_o.slot;
      last = tile;
      ring_q.advance();
      ring_o.advance();
      tile.advance(work_);
      if (!tile.exists(work_)) {
        named_sync(ds_there);
        GradQSlices to(shared_, memory_, turn, 0);
        to.wait(a_, work_, last);
#pragma unroll
        for (i32 i = 0; i < first_grad_q_slices; ++i) {
          GradQSlice dq;
          begin_slice(dq, i, turn);
          wgmma_wait<0>();
          to.add(i, dq);
        }
        to.end();
        return;
      }
      shared_.q_full[ring_q.slot].wait(ring_q.parity);
      shared_.grad_o_full[ring_o.slot].wait(ring_o.parity);
      begin_transposed<steps_d>(s, memory_.k(), memory_.q(ring_q.slot));
      wgmma_wait<0>();
      arrive_by_warp(shared_.grad_o_empty[last_o]);
      make_p();
      arrive_by_warp(shared_.q_empty[ring_q.slot]);
      named_sync(ds_there);
      give_weights(s);
      add_slices<0, first_grad_q_slices, false>(last, turn, dv, p, memory_.grad_o(ring_o.slot));
    }
  }

  REGARD_DEVICE void make_dk(float (&dk)[columns_k / 2]) const {
    const SeenQueries seen(Window(a_, work_.sequence), work_.first_key, key_);
    const BackwardScoreScale scale(a_);
    BackwardScores s, dp;
    LeftFragments p, ds;
    QueryTileCursor tile(work_);
    Ring<q_stages> ring_q;
    Ring<grad_o_stages> ring_o;
    i32 last_q = 0;  // the slot of the previous tile
    shared_.k_full.wait(0);
    shared_.v_full.wait(0);
#pragma unroll 1
    for (u32 turn = 0; tile.exists(work_); ++turn) {  // of dS and dQ
      shared_.q_full[ring_q.slot].wait(ring_q.parity);
      shared_.grad_o_full[ring_o.slot].wait(ring_o.parity);
      begin_transposed<steps_dv>(dp, memory_.v(), memory_.grad_o(ring_o.slot));
      wgmma_wait<0>();
      if (turn > 0) arrive_by_warp(shared_.q_empty[last_q]);
      named_sync(weights_there);
      take_weights(s);
      const Weights weights(scale, TileSlope(), KeptWeights(), 0, memory_.delta(ring_o.slot), seen,
                            tile.at(work_).first_row());
      weights.make_ds(s, dp, p, ds);
      arrive_by_warp(shared_.grad_o_empty[ring_o.slot]);
      store_ds(memory_.ds(turn % ds_stages), ds);
      warpgroup_sync(own_ds_there);
      named_arrive(ds_there);
      add_slices<first_grad_q_slices, grad_q_slices, true>(tile, turn, dk, ds, memory_.q(ring_q.slot));
      last_q = ring_q.slot;
      tile.advance(work_);
      ring_q.advance();
      ring_o.advance();
    }
    wgmma_wait<0>();
  }

  /// Slices [first, end) of dQ of a tile, dS K, overlapping with dV += P^T dO or dK += dS^T Q, which ends
  /// after them. Both slices are pending at once if there are enough registers.
  template <i32 first, i32 end, bool at_once, i32 n>
  REGARD_DEVICE void add_slices(const QueryTileCursor& tile, u32 turn, float (&sums)[n],
                                const LeftFragments& weights, u32 queries) const {
    constexpr i32 count = end - first, consumer = first == 0 ? 0 : 1;
    static_assert(count <= 2);
    GradQSlice dq[2];
    GradQSlices to(shared_, memory_, turn, consumer);
    if constexpr (count == 2) begin_slice(dq[0], first, turn);
    if constexpr (count == 2 && !at_once) {
      to.wait(a_, work_, tile);
      wgmma_wait<0>();
      to.add(first, dq[0]);
    }
    if constexpr (count > 0) begin_slice(dq[1], end - 1, turn);
    begin_of_queries(sums, weights, queries);
    if constexpr (count < 2 || at_once) to.wait(a_, work_, tile);
    if constexpr (count == 2 && at_once) {
      wgmma_wait<2>();
      to.add(first, dq[0]);
    }
    if constexpr (count > 0) {
      wgmma_wait<1>();
      to.add(end - 1, dq[1]);
    }
    to.end();
  }

  REGARD_DEVICE void begin_slice(GradQSlice& dq, i32 slice, u32 turn) const {
    const MatrixDescriptor a(memory_.ds(turn % ds_stages), 0),
        b(memory_.k() + slice * block_k * box_bytes, block_k * box_bytes);
    wgmma_fence();
    multiply_tiles<block_k / step_rows, Transposed::b>(
        dq, [&](i32 i) { return a.low_at(i * step_bytes); },
        [&](i32 i) { return b.low_at(i * step_rows * box_bytes); });
    wgmma_commit();
  }

  /// Shares the factors of dP - D in the layout that they have in registers.
  REGARD_DEVICE void give_weights(const BackwardScores& s) const {
#pragma unroll
    for (i32 i = 0; i < block_q / 8; ++i)
      store_shared(weights_at(i), s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]);
    named_arrive(weights_there);
  }
  REGARD_DEVICE void take_weights(BackwardScores& s) const {
#pragma unroll
    for (i32 i = 0; i < block_q / 8; ++i) load_shared_4(&s[4 * i], weights_at(i));
  }
  REGARD_DEVICE u32 weights_at(i32 vector) const {
    return memory_.weights() + vector * 128 * 16 + threadIdx.x % 128 * 16;
  }

  const BackwardArguments& a_;
  const Sm90BackwardWork& work_;
  Sm90BackwardShared& shared_;
  Sm90BackwardMasks& masks_;
  const Sm90BackwardMemory& memory_;
  i32 key_;  // the thread's first one; the other is 8 further
};

}  // namespace regard
