// A warpgroup that has 64 keys of a block, and their dK and dV in registers.
//
// Scores and dP are made transposed, so that P and dS are left operands of the products with dO and Q as they
// lie in registers. dS goes to the warpgroup that makes dQ through shared memory; consumers never wait for
// each other, and what one of them computes lies beside products of the others.
#pragma once

#include "kernels/sm90/backward_scores.h"
#include "kernels/sm90/backward_store.h"
#include "kernels/sm90/ptx/stmatrix.h"
#include "kernels/sm90/ptx/wgmma.h"

namespace regard {

constexpr i32 columns_k = (key::d + 31) / 32 * 32, columns_v = (key::dv + 31) / 32 * 32;

class Consumer {
 public:
  REGARD_DEVICE Consumer(const BackwardArguments& a, const Work& work, const Memory& memory, i32 warpgroup)
      : a_(a),
        work_(work),
        memory_(memory),
        warpgroup_(warpgroup),
        first_key_(work.first_key + warpgroup * group_rows),
        key_(first_key_ + static_cast<i32>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4)) {}

  REGARD_DEVICE void run() const {
    float dk[columns_k / 2] = {}, dv[columns_v / 2] = {};
    if (Tile(work_).exists(work_)) multiply(dk, dv);
    if (!work_.has_keys()) return;
    store_gradient<key::d, columns_k>(a_, work_, {a_.grad_k_sum, a_.grad_k_columns, a_.grad_k}, key_, dk,
                                      a_.scale);
    store_gradient<key::dv, columns_v>(a_, work_, {a_.grad_v_sum, a_.grad_v_columns, a_.grad_v}, key_, dv,
                                       1.f);
  }

 private:
  /// ptxas keeps track of products in the making along straight code alone: waits for barriers come before
  /// the first of those that are waited for one by one.
  REGARD_DEVICE void multiply(float (&dk)[columns_k / 2], float (&dv)[columns_v / 2]) const {
    const QueryMask mask(work_.sequence, a_);
    const ScoreScale scale(a_);
    Barriers& barriers = memory_.barriers;
    Scores s, dp;
    Packed p, ds;
    Tile tile(work_);
    Ring<stages> ring;
    const auto weights = [&] {
      return Weights(scale, memory_.lse(ring.stage), memory_.delta(ring.stage), mask, tile.first_row(),
                     first_key_, key_);
    };
    barriers.k_full.wait(0);
    barriers.q_full[0].wait(0);
    begin_transposed<key::d>(s, memory_.k(), memory_.q(0));
    wgmma_wait<0>();
    barriers.v_full.wait(0);
    barriers.grad_o_full[0].wait(0);
    begin_transposed<key::dv>(dp, memory_.v(), memory_.grad_o(0));
    make_p(s, weights());
    wgmma_wait<0>();
#pragma unroll 1
    for (u32 turn = 0;; ++turn) {
      barriers.ds_empty[turn % ds_stages].wait(turn / ds_stages % 2 ^ 1);
      make_ds(s, dp, weights(), p, ds);
      store_ds(ds, turn);
      const i32 stage = ring.stage;
      tile.advance(work_);
      ring.advance();
      if (!tile.exists(work_)) {
        begin_gradient(dv, p, memory_.grad_o(stage));
        begin_gradient(dk, ds, memory_.q(stage));
        wgmma_wait<0>();
        return;
      }
      barriers.q_full[ring.stage].wait(ring.parity);
      barriers.grad_o_full[ring.stage].wait(ring.parity);
      begin_gradient(dv, p, memory_.grad_o(stage));
      begin_gradient(dk, ds, memory_.q(stage));
      wgmma_wait<1>();
      begin_transposed<key::d>(s, memory_.k(), memory_.q(ring.stage));
      wgmma_wait<1>();
      begin_transposed<key::dv>(dp, memory_.v(), memory_.grad_o(ring.stage));
      wgmma_wait<1>();
      make_p(s, weights());
      wgmma_wait<0>();
    }
  }

  /// S or dP, transposed: rows of K or V by rows of Q or dO, begun.
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

  /// dV += P^T dO or dK += dS^T Q, begun.
  template <i32 n>
  REGARD_DEVICE void begin_gradient(float (&sums)[n], const Packed& a, u32 queries) const {
    const SharedOperand b(queries, block_q * box_bytes);
    wgmma_fence();
    multiply_p(sums, a, [&](i32 i) { return b.low_at(i * step_rows * box_bytes); });
    wgmma_commit();
  }

  /// dS of 64 keys: a row for each query.
  REGARD_DEVICE void store_ds(const Packed& ds, u32 turn) const {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, query = lane / 16 * 8 + lane % 8,
              vector = 2 * warp + lane / 8 % 2;
    const u32 first =
        memory_.ds(turn) + warpgroup_ * block_q * box_bytes + query * box_bytes + ((vector ^ query % 8) << 4);
#pragma unroll
    for (i32 i = 0; i < block_q / step_rows; ++i) stmatrix_trans(first + i * step_rows * box_bytes, ds[i]);
    make_visible_to_products();
    __syncwarp();
    if (lane == 0) memory_.barriers.ds_full[turn % ds_stages].arrive();
  }

  const BackwardArguments& a_;
  const Work& work_;
  const Memory& memory_;
  i32 warpgroup_;  // 0 .. consumers - 1
  i32 first_key_;  // of the warpgroup
  i32 key_;        // first one of the thread; the other is 8 further on
};

}  // namespace regard
