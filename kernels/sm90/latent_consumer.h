// The two warpgroups that multiply: one computes the scores of 64 query rows and their weights, and each of
// them multiplies the weights by its half of V.
//
// Q K^T of a tile is issued after P V of the tile before; while the scores become weights, the other
// warpgroup's P V still runs.
#pragma once

#include "kernels/sm90/latent_shared.h"
#include "kernels/sm90/ptx/stmatrix.h"
#include "kernels/sm90/ptx/wgmma.h"
#include "kernels/sm90/softmax.h"
#include "kernels/sm90/store.h"
#include "kernels/workspace_rows.h"

namespace regard {

using HalfOutput = float[half_columns / 2];

/// O is rescaled once the maximum of a row has grown by a factor of 2^most_growth; until then weights may
/// grow as far.
constexpr float most_growth = 8;

/// What both warpgroups do: the rows and columns of O that this thread has.
class LatentConsumer {
 public:
  REGARD_DEVICE LatentConsumer(const Sm90ForwardArguments& a, Sm90LatentShared& shared,
                               Sm90LatentMemory memory, i32 half)
      : a_(a), shared_(shared), memory_(memory), half_(half) {}

 protected:
  REGARD_DEVICE static i32 warp() { return threadIdx.x / wave % 4; }
  /// This thread's first row in the block; the second one is 8 after it.
  REGARD_DEVICE static i32 first_row() { return warp() * 16 + static_cast<i32>(threadIdx.x % wave / 4); }

  /// Waits for a turn; null: there is no more.
  REGARD_DEVICE const Turn* wait_for_turn(u32 turn) const {
    shared_.turn_full[turn % 2].wait(turn / 2 % 2);
    const Turn& given = shared_.turn[turn % 2];
    return given.work.head < 0 ? nullptr : &given;
  }
  /// Called by whole warps: a warp arrives once none of its threads still reads what the barrier guards.
  REGARD_DEVICE static void arrive(Barrier& barrier) {
    __syncwarp();
    if (threadIdx.x % wave == 0) barrier.arrive();
  }

  /// x of the first lane in every lane, so that it can be held in a uniform register, as products take it.
  REGARD_DEVICE static u32 uniform(u32 x) { return __shfl_sync(whole_warp, x, 0); }

  /// The descriptor of this warpgroup's half of V.
  REGARD_DEVICE MatrixDescriptor half_of_v() const {
    return {uniform(memory_.k(ring_.slot, half_ * boxes_of_half)), static_cast<u32>(box_of_k)};
  }
  REGARD_DEVICE void done_with_half() { arrive(shared_.k_empty[ring_.slot][1 + half_]); }

  REGARD_DEVICE static void rescale(HalfOutput& o, const float (&factor)[2]) {
#pragma unroll
    for (i32 i = 0; i < half_columns / 2; ++i) o[i] *= factor[i / 2 % 2];
  }

  /// This thread's first or second row.
  struct RowOfThread : Row {
    bool exists;

    REGARD_DEVICE RowOfThread(const Sm90ForwardArguments& a, const Turn& given, i32 half)
        : Row(a, given.work, first_row() + 8 * half), exists(row < given.work.sequence.sq) {
      if constexpr (!pack_gqa) return;
      exists = exists && head < given.end_head;
      head = min(head, given.end_head - 1);
    }
  };

  REGARD_DEVICE i64 row_of_part(const Turn& given, const Row& row) const {
    return given.work.number * rows_of_part(a_) + row_number(a_, given.work.sequence, row);
  }
  template <class T>
  REGARD_DEVICE T* address(const Rows& rows, const Turn& given, const Row& row) const {
    const Sequence32& s = given.work.sequence;
    return regard::row_of<T>(rows, s.batch, row.head, s.first_q + row.row);
  }

  /// Stores the half of O, scaled. Destroys `o`.
  REGARD_DEVICE void store(const Turn& given, HalfOutput& o, const float (&scale)[2]) const {
    const i32 first_column = half_ * half_columns;
    // It is a loop so that both rows share one body of code.
#pragma unroll 1
    for (i32 i = 0; i < 2; ++i) {
      const RowOfThread row(a_, given, i);
      const float of_row = i == 0 ? scale[0] : scale[1];
      if constexpr (split_kv) {
        if (row.exists)
          store_part<half_columns>(a_.partial_o + row_of_part(given, row) * config::dv + first_column, o, 0,
                                   of_row);
      } else {
        const OutputRow<half_columns> out(o, 0, of_row);
        if (row.exists) out.store(address<u16>(a_.o, given, row) + first_column);
      }
#pragma unroll
      for (i32 j = 0; j < half_columns / 8; ++j) o[4 * j] = o[4 * j + 2], o[4 * j + 1] = o[4 * j + 3];
    }
  }

  const Sm90ForwardArguments& a_;
  Sm90LatentShared& shared_;
  Sm90LatentMemory memory_;
  i32 half_;
  Ring<stages> ring_;
  u32 handed_ = 0;  // how often weights or factors have been handed over
};

/// The warpgroup that computes the scores; it has the first half of V.
class ScoresConsumer : LatentConsumer {
 public:
  REGARD_DEVICE ScoresConsumer(const Sm90ForwardArguments& a, Sm90LatentShared& shared,
                               Sm90LatentMemory memory)
      : LatentConsumer(a, shared, memory, 0), scores_(a, 1) {}

  REGARD_DEVICE void run() {
#pragma unroll 1
    for (u32 turn = 0; const Turn* given = wait_for_turn(turn); ++turn) {
      WarpgroupRowState rows;
      HalfOutput o{};
      shared_.q_full.wait(turn % 2);
      if (given->tiles.start() >= 0)
        multiply(*given, rows, o);
      else
        arrive(shared_.q_empty);
      finish(*given, rows, o);
      arrive(shared_.turn_done[turn % 2]);
    }
  }

 private:
  REGARD_DEVICE void multiply(const Turn& given, WarpgroupRowState& rows, HalfOutput& o) {
    ForwardScores s;
    ForwardP p;
    float factor[2];
    i32 tile = given.tiles.start();
    begin_scores(s, ring_.slot, ring_.parity);
    wgmma_wait<0>();
    done_with_scores();
#pragma unroll 1
    for (bool first = true;; first = false) {
      const bool rescales = make_p(s, rows, factor, given, tile) && !first;
      pack(p, s);
      put(p, factor, rescales);
      if (rescales) rescale(o, factor);
      tile = given.tiles.next(tile);
      if (tile < 0) break;
      begin_output(o, p);
      hand_over();
      Ring<stages> next = ring_;
      next.advance();
      begin_scores(s, next.slot, next.parity);
      wgmma_wait<pairs_of_tile>();
      done_with_half();
      ring_ = next;
      wgmma_wait<0>();
      done_with_scores();
    }
    arrive(shared_.q_empty);
    begin_output(o, p);
    hand_over();
    wgmma_wait<0>();
    done_with_half();
    ring_.advance();
  }

  /// Begins S = Q K^T of the tile in a slot, pair by pair of boxes as they arrive; each is a group.
  REGARD_DEVICE void begin_scores(ForwardScores& s, i32 slot, u32 parity) {
    const MatrixDescriptor q(memory_.q(), 0), k(uniform(memory_.k(slot, 0)), 0);
#pragma unroll
    for (i32 pair = 0; pair < pairs_of_tile; ++pair) {
      const i32 first_box = pair == 0 ? boxes - 1 : 2 * (pair - 1);
      shared_.k_full[slot][pair].wait(parity);
      wgmma_fence();  // after each wait: otherwise ptxas serialises the products
      const auto in_q = [&](i32 step) {
        return q.low_at((first_box + step / steps_per_box) * group_rows * box_bytes +
                        step % steps_per_box * step_bytes);
      };
      const auto in_k = [&](i32 step) {
        return k.low_at((first_box + step / steps_per_box) * box_of_k + step % steps_per_box * step_bytes);
      };
      if (pair == 0)
        multiply_tiles<steps_per_box>(s, in_q, in_k);
      else
        multiply_tiles<2 * steps_per_box, Transposed::none, true>(s, in_q, in_k);
      wgmma_commit();
    }
  }
  REGARD_DEVICE void done_with_scores() { arrive(shared_.k_empty[ring_.slot][0]); }

  /// Begins O += P V.
  REGARD_DEVICE void begin_output(HalfOutput& o, const ForwardP& p) {
    const MatrixDescriptor v = half_of_v();
    wgmma_fence();
    multiply_p(o, p, [&](i32 step) { return v.low_at(step * 16 * box_bytes); });
    wgmma_commit();
  }

  /// Scores become weights, 2^(scale * (score - row_max)), whose sums are added to the rows'; row_max is a
  /// score. Returns whether O of a row of the warp has to be rescaled by `factor`.
  REGARD_DEVICE bool make_p(ForwardScores& s, WarpgroupRowState& rows, float (&factor)[2], const Turn& given,
                            i32 tile) {
    scores_.apply(s);
    if (!given.visible[0].is_whole(tile)) hide(s, tile, given.work);
    float most[2];
    find_highest(s, most);
#pragma unroll
    for (i32 half = 0; config::row_max && half < 2; ++half)
      rows.largest[half] = fmaxf(rows.largest[half], most[half]);
    factor[0] = factor[1] = 1;
    // Rare after the first tile: a vote takes less time than finding the maxima of the rows.
    const bool rescales = __any_sync(whole_warp, outgrows(rows, most, 0) || outgrows(rows, most, 1));
    if (rescales) raise_row_max(rows, most, factor);
    const float scale = scores_.scale();
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const float row_max = rows.row_max[half] == -infinity ? 0.f : rows.row_max[half];
      float sum[2] = {};
#pragma unroll
      for (i32 i = 0; i < block_k / 4; ++i) {
        float& x = s[i / 2 * 4 + 2 * half + i % 2];
        x = exp2((x - row_max) * scale);
        sum[i % 2] += x;
      }
      rows.sum[half] = rows.sum[half] * factor[half] + (sum[0] + sum[1]);
    }
    return rescales;
  }

  /// Whether row_max of a row is too low for a score.
  REGARD_DEVICE bool outgrows(const WarpgroupRowState& rows, const float (&most)[2], i32 half) const {
    const float before = rows.row_max[half];
    return before == -infinity ? most[half] > before : (most[half] - before) * scores_.scale() > most_growth;
  }
  /// `most` has this thread's maxima. Rows whose row_max is high enough keep it.
  REGARD_DEVICE void raise_row_max(WarpgroupRowState& rows, float (&most)[2], float (&factor)[2]) const {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      most[half] = quad_max(most[half]);
      if (!outgrows(rows, most, half)) continue;
      factor[half] = exp2((rows.row_max[half] - most[half]) * scores_.scale());
      rows.row_max[half] = most[half];
    }
  }

  REGARD_DEVICE void hide(ForwardScores& s, i32 tile, const Sm90ForwardWork& work) const {
    // Rows past the last one see the same keys as the last one, as in tiles_of.
    const i32 last = work.sequence.sq - 1, rows[2] = {min(Row(a_, work, first_row()).row, last),
                                                      min(Row(a_, work, first_row() + 8).row, last)};
    mask(s, tile * block_k, rows, window_of(work, a_));
  }

  /// Stores the weights of a tile, and the factors that O is multiplied by before their products are added.
  REGARD_DEVICE void put(const ForwardP& p, const float (&factor)[2], bool rescales) {
    wait_until_taken();
    const u32 lane = threadIdx.x % wave, row = lane % 16;
    // A row has eight 16-byte parts, whose order the swizzle changes by row.
    const u32 to = memory_.p() + (warp() * 16 + row) * box_bytes + ((lane / 16 ^ row % 8) << 4);
#pragma unroll
    for (i32 i = 0; i < fragments; ++i) stmatrix(to ^ i * 32, p[i][0], p[i][1], p[i][2], p[i][3]);
    if (rescales) put(factor);
    if (lane == 0) shared_.rescales[warp()] = rescales;
  }
  REGARD_DEVICE void hand_over() {
    make_visible_to_products();
    arrive(shared_.p_full);
  }
  REGARD_DEVICE void wait_until_taken() {
    shared_.p_empty.wait(handed_ % 2 ^ 1);
    __syncwarp();  // no thread may still poll when the next tile is handed over
    ++handed_;
  }
  REGARD_DEVICE void put(const float (&factor)[2]) {
    if (threadIdx.x % 4 != 0) return;
    shared_.factor[first_row()] = factor[0];
    shared_.factor[first_row() + 8] = factor[1];
  }

  REGARD_DEVICE void finish(const Turn& given, const WarpgroupRowState& rows, HalfOutput& o) {
    const RowOfThread output_rows[2] = {{a_, given, 0}, {a_, given, 1}};
    const float scale = scores_.scale();
    const RowEnd ends[2] = {{rows.row_max[0] * scale, quad_sum(rows.sum[0]), output_rows[0].head, a_},
                            {rows.row_max[1] * scale, quad_sum(rows.sum[1]), output_rows[1].head, a_}};
    const float factor[2] = {ends[0].scale, ends[1].scale};
    wait_until_taken();
    put(factor);
    arrive(shared_.p_full);
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
      const float row_max = config::row_max ? row_max_of(rows.largest[i], ends[i].lse, scale) : 0;
      if (!output_rows[i].exists || threadIdx.x % 4 != 0) continue;
      if constexpr (config::row_max)
        *(split_kv ? a_.partial_row_max + row_of_part(given, output_rows[i])
                   : address<float>(a_.row_max, given, output_rows[i])) = row_max;
      if constexpr (split_kv)
        a_.partial_lse[row_of_part(given, output_rows[i])] = ends[i].lse;
      else if (a_.lse.data != nullptr)
        *address<float>(a_.lse, given, output_rows[i]) = ends[i].lse;
    }
    store(given, o, factor);
  }

  ForwardScoreScale scores_;
};

/// The warpgroup that takes the weights; it has the second half of V.
class OutputConsumer : LatentConsumer {
 public:
  REGARD_DEVICE OutputConsumer(const Sm90ForwardArguments& a, Sm90LatentShared& shared,
                               Sm90LatentMemory memory)
      : LatentConsumer(a, shared, memory, 1) {}

  REGARD_DEVICE void run() {
#pragma unroll 1
    for (u32 turn = 0; const Turn* given = wait_for_turn(turn); ++turn) {
      HalfOutput o{};
#pragma unroll 1
      for (i32 tile = given->tiles.start(); tile >= 0; tile = given->tiles.next(tile)) multiply(o);
      wait_until_handed();
      float factor[2];
      take(factor);
      arrive(shared_.p_empty);
      store(*given, o, factor);
      arrive(shared_.turn_done[turn % 2]);
    }
  }

 private:
  REGARD_DEVICE void multiply(HalfOutput& o) {
    wait_until_handed();
    // The boxes have arrived, as the scores came from them, but this thread has to observe their barriers,
    // too.
#pragma unroll
    for (i32 pair = pair_of_box(boxes_of_half); pair < pairs_of_tile; ++pair)
      shared_.k_full[ring_.slot][pair].wait(ring_.parity);
    if (__any_sync(whole_warp, shared_.rescales[warp()])) {
      float factor[2];
      take(factor);
      rescale(o, factor);
    }
    const MatrixDescriptor p(memory_.p(), 0), v = half_of_v();
    wgmma_fence();
    multiply_tiles<block_k / 16, Transposed::b, true>(
        o, [&](i32 step) { return p.low_at(step * step_bytes); },
        [&](i32 step) { return v.low_at(step * 16 * box_bytes); });
    wgmma_commit();
    wgmma_wait<0>();
    arrive(shared_.p_empty);
    done_with_half();
    ring_.advance();
  }

  REGARD_DEVICE void wait_until_handed() {
    shared_.p_full.wait(handed_ % 2);
    ++handed_;
  }
  REGARD_DEVICE void take(float (&factor)[2]) const {
    factor[0] = shared_.factor[first_row()];
    factor[1] = shared_.factor[first_row() + 8];
  }
};

}  // namespace regard
