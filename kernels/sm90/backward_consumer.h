// A warpgroup that multiplies: 64 keys of a block against its tiles of queries.
//
// Scores and dP are made transposed, so that P and dS are left operands of the products with dO and Q as they
// lie in registers. The product for dK of a tile runs while P and dS of the next one are made, and its dQ
// while the next scores begin: the matrix units have something to do at all times.
#pragma once

#include "kernels/sm90/backward_scores.h"
#include "kernels/sm90/backward_store.h"
#include "kernels/sm90/ptx/stmatrix.h"
#include "kernels/sm90/ptx/tma.h"
#include "kernels/sm90/ptx/wgmma.h"

namespace regard {

constexpr i32 step_bytes = 32, steps_per_box = box_bytes / step_bytes;  // along rows
constexpr i32 step_rows = 16;                                           // along rows that are k
constexpr i32 columns_k = (key::d + 31) / 32 * 32, columns_v = (key::dv + 31) / 32 * 32;

/// The named barrier at which dS of all consumers is there.
constexpr i32 ds_there = 1;
static_assert(consumers == 2, "named_sync is for two warpgroups");

class Consumer {
 public:
  REGARD_DEVICE Consumer(const BackwardArguments& a, Shared& shared, const Memory& memory, i32 warpgroup)
      : a_(a), shared_(shared), memory_(memory), warpgroup_(warpgroup) {}

  REGARD_DEVICE void run(const Work& work) {
    float dk[columns_k / 2] = {}, dv[columns_v / 2] = {};
    if (Tile(work).exists(work)) multiply(work, dk, dv);
    if (!work.has_keys()) return;
    const i32 key = first_key(work) + static_cast<i32>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
    store_gradient<key::d, columns_k>(a_, work, {a_.grad_k_sum, a_.grad_k_columns, a_.grad_k}, key, dk,
                                      a_.scale);
    store_gradient<key::dv, columns_v>(a_, work, {a_.grad_v_sum, a_.grad_v_columns, a_.grad_v}, key, dv, 1.f);
  }

 private:
  REGARD_DEVICE i32 first_key(const Work& work) const { return work.first_key + warpgroup_ * group_rows; }

  /// Only sums that nothing but products touch may be in the making where the loop goes round: else ptxas
  /// would let every product end before the next one.
  REGARD_DEVICE void multiply(const Work& work, float (&dk)[columns_k / 2], float (&dv)[columns_v / 2]) {
    const QueryMask mask(work.sequence, a_);
    const ScoreScale scale(a_);
    Scores s, dp;
    Packed p;
    float dq[grad_q_columns / 2];
    Tile tile(work);
    Ring<q_stages> ring_q;
    Ring<grad_o_stages> ring_o;
    const auto weigh = [&] {
      const bool whole = sees_all(mask, tile.first_row(), first_key(work));
      Seen seen{};
      if (!whole) seen = Seen::of_tile(mask, tile.first_row(), key_of_thread(work));
      make_p(s, p, scale, memory_.lse(ring_q.stage), whole, seen);
    };
    shared_.k_full.wait(0);
    begin_scores(s, ring_q);
    shared_.v_full.wait(0);
    begin_dp(dp, ring_o);
    wgmma_wait<1>();
    weigh();
    wgmma_wait<0>();
    u32 turn = 0;  // of dQ and dS
    i32 last_q = 0;
#pragma unroll 1
    for (;; ++turn) {
      store_ds(s, dp, memory_.delta(ring_o.stage), turn);
      begin_dv(dv, p, ring_o.stage);
      wgmma_wait<1>();
      if (turn > 0) arrive(shared_.q_empty[last_q]);
      named_sync(ds_there);
      last_q = ring_q.stage;
      const i32 last_o = ring_o.stage;
      ring_q.advance();
      ring_o.advance();
      tile.advance(work);
      if (!tile.exists(work)) break;
      shared_.q_full[ring_q.stage].wait(ring_q.parity);
      shared_.grad_o_full[ring_o.stage].wait(ring_o.parity);
      shared_.grad_q_empty[warpgroup_].wait(turn % 2 ^ 1);
      begin_dq(dq, turn);
      begin_transposed<key::d>(s, memory_.k(), memory_.q(ring_q.stage));
      wgmma_wait<1>();
      arrive(shared_.grad_o_empty[last_o]);
      send(dq, turn);
      begin_transposed<key::dv>(dp, memory_.v(), memory_.grad_o(ring_o.stage));
      begin_dk(dk, last_q, turn);
      wgmma_wait<2>();
      weigh();
      wgmma_wait<1>();
    }
    shared_.grad_q_empty[warpgroup_].wait(turn % 2 ^ 1);
    begin_dq(dq, turn);
    wgmma_wait<0>();
    send(dq, turn);
    begin_dk(dk, last_q, turn);
    wgmma_wait<0>();
  }

  REGARD_DEVICE i32 key_of_thread(const Work& work) const {
    return first_key(work) + static_cast<i32>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
  }

  REGARD_DEVICE void begin_scores(Scores& s, const Ring<q_stages>& ring) const {
    shared_.q_full[ring.stage].wait(ring.parity);
    begin_transposed<key::d>(s, memory_.k(), memory_.q(ring.stage));
  }
  REGARD_DEVICE void begin_dp(Scores& dp, const Ring<grad_o_stages>& ring) const {
    shared_.grad_o_full[ring.stage].wait(ring.parity);
    begin_transposed<key::dv>(dp, memory_.v(), memory_.grad_o(ring.stage));
  }
  /// Rows of K or V by rows of Q or dO.
  template <i32 depth>
  REGARD_DEVICE void begin_transposed(Scores& s, u32 keys, u32 queries) const {
    const SharedOperand a(keys + warpgroup_ * group_rows * box_bytes, 0), b(queries, 0);
    wgmma_fence();
    const auto bytes_to = [](i32 step, i32 rows) {
      return step / steps_per_box * rows * box_bytes + step % steps_per_box * step_bytes;
    };
    multiply_tiles<(depth + 15) / 16>(
        s, [&](i32 i) { return a.low_at(bytes_to(i, block_k)); },
        [&](i32 i) { return b.low_at(bytes_to(i, block_q)); });
    wgmma_commit();
  }

  /// dV += P^T dO, begun.
  REGARD_DEVICE void begin_dv(float (&dv)[columns_v / 2], const Packed& p, i32 stage) const {
    const SharedOperand b(memory_.grad_o(stage), block_q * box_bytes);
    wgmma_fence();
    multiply_p(dv, p, [&](i32 i) { return b.low_at(i * step_rows * box_bytes); });
    wgmma_commit();
  }

  /// dK += dS^T Q, begun.
  REGARD_DEVICE void begin_dk(float (&dk)[columns_k / 2], i32 stage, u32 turn) const {
    const SharedOperand a(place_of_ds(turn), 0), b(memory_.q(stage), block_q * box_bytes);
    wgmma_fence();
    multiply_tiles<block_q / step_rows, Transposed::both, true>(
        dk, [&](i32 i) { return a.low_at(i * step_rows * box_bytes); },
        [&](i32 i) { return b.low_at(i * step_rows * box_bytes); });
    wgmma_commit();
  }

  /// dQ = dS K, this consumer's part, begun.
  REGARD_DEVICE void begin_dq(float (&dq)[grad_q_columns / 2], u32 turn) const {
    const i32 row_group = warpgroup_ % grad_q_row_groups,
              column = warpgroup_ / grad_q_row_groups * grad_q_columns;
    constexpr i32 box_columns = Sm90BackwardLayout::box_columns;
    const SharedOperand a(memory_.ds(turn % ds_stages) + row_group * group_rows * box_bytes, 0),
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

  /// dS of a consumer's keys: a row of 64 for each query.
  REGARD_DEVICE u32 place_of_ds(u32 turn) const {
    return memory_.ds(turn % ds_stages) + warpgroup_ * block_q * box_bytes;
  }
  REGARD_DEVICE void store_ds(const Scores& s, const Scores& dp, u32 delta, u32 turn) const {
    Packed ds;
    make_ds(s, dp, ds, delta);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, query = lane / 16 * 8 + lane % 8,
              vector = 2 * warp + lane / 8 % 2;
    const u32 first = place_of_ds(turn) + query * box_bytes + ((vector ^ query % 8) << 4);
#pragma unroll
    for (i32 i = 0; i < block_q / step_rows; ++i) stmatrix_trans(first + i * step_rows * box_bytes, ds[i]);
    make_visible_to_products();
  }

  /// Leaves dQ of a tile to what adds it to the sums.
  REGARD_DEVICE void send(const float (&dq)[grad_q_columns / 2], u32 turn) const {
    const u32 place = memory_.grad_q(warpgroup_) + threadIdx.x % 128 * 16;
#pragma unroll
    for (i32 i = 0; i < grad_q_columns / 8; ++i)
      store_shared(place + i * 128 * 16, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    make_visible_to_products();
    __syncwarp();
    arrive(shared_.grad_q_full[warpgroup_]);
  }

  REGARD_DEVICE static void arrive(Barrier& barrier) {
    if (threadIdx.x % 32 == 0) barrier.arrive();
  }

  const BackwardArguments& a_;
  Shared& shared_;
  const Memory& memory_;
  i32 warpgroup_;  // 0 .. consumers - 1
};

}  // namespace regard
