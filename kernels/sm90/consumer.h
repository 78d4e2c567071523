// A warpgroup that multiplies: 64 query rows against their tiles of keys.
//
// The products of a tile's weights with V run while the next tile's scores become weights; the weights are
// relative to the maximum of the first tiles (softmax.h), so that nothing waits for a maximum.
#pragma once

#include "kernels/sm90/dropout.h"
#include "kernels/sm90/ptx/cluster.h"
#include "kernels/sm90/ptx/tma.h"
#include "kernels/sm90/ptx/wgmma.h"
#include "kernels/sm90/shared.h"
#include "kernels/sm90/slopes.h"
#include "kernels/sm90/softmax.h"
#include "kernels/sm90/store.h"
#include "kernels/sm90/store_boxes.h"
#include "kernels/workspace_rows.h"

namespace regard {

/// Ping-pong: the warpgroups begin their products one after the other, so that one's softmax overlaps the
/// others' products.
constexpr bool pingpong = config::warp_groups > 1;
static_assert(!pingpong || consumers == config::warp_groups);

/// The first tiles may be visible only to other warpgroups, or only to the other block of the cluster. A
/// warpgroup skips all of those. In ping-pong it skips tiles that none of its block sees, and then only the
/// scores of a tile: its V is still multiplied, by zeros, since warpgroups alternate at every tile.
constexpr bool passes_tiles = tiles_by_warpgroup && (!pingpong || cluster > 1),
               passes_first_scores = tiles_by_warpgroup && pingpong;

/// The first tile's softmax has separate code unless that makes a compile too long: blocks of few tiles are
/// up to 3 % faster that way.
constexpr bool peel_first = !config::softcap && !wide_heads;
/// Whether random bytes are drawn in the same instruction stream as the exponentials, whose units are the
/// bottleneck, or after them. With narrow heads, which have the most exponentials for each product, the same
/// stream is slower.
constexpr bool draws_beside_exponentials =
    config::d > 64 && config::d <= 128 && !config::softcap && !masked_by_row;

/// Named barriers: one for each warpgroup to begin in ping-pong, then one for each warpgroup alone.
constexpr i32 first_pingpong = 2;

using OutputSums = float[columns / 2];

class ForwardConsumer {
 public:
  REGARD_DEVICE ForwardConsumer(const Sm90ForwardArguments& a, const TensorMap& o, Sm90ForwardShared& shared,
                                Sm90ForwardMemory memory, i32 warpgroup)
      : a_(a), o_(o), shared_(shared), memory_(memory), warpgroup_(warpgroup), scores_(a, 1) {}

  REGARD_DEVICE void run() {
    if (pingpong && warpgroup_ == consumers - 1) named_arrive(first_pingpong);
#pragma unroll 1
    for (u32 turn = 0;; ++turn) {
      shared_.turn_full[turn % 2].wait(turn / 2 % 2);
      const Turn& given = shared_.turn[turn % 2];
      if (given.work.head < 0) break;
      const bool safe_softmax = given.safe_softmax;
      if constexpr (eight_bits)
        scores_ = ForwardScoreScale(a_, descale(a_.descale_q, given) * descale(a_.descale_k, given));
      WarpgroupRowState rows;
      OutputSums o{};
      if (given.visited().start() >= 0) {
        multiply(turn, given, safe_softmax, rows, o);
      } else {
        wait_for_q(turn);
        __syncwarp();  // no thread still polls when the slot is released
        done_with_last_o(turn);
        done_with_q(turn);
      }
      const u32 warp = threadIdx.x / wave - 4, bad = safe_softmax ? 0 : overflowed(rows);
      store(turn, given, rows, o, safe_softmax ? shared_.rows[turn % 2][warp] : ~bad);
      if (threadIdx.x % wave == 0) {
        shared_.overflowed[turn % 2][warp] = bad;
        if constexpr (cluster > 1)
          send(cluster_rank() ^ 1, shared_.peer_overflowed[turn % 2][warp], bad, shared_.peer_done[turn % 2]);
      }
      __syncwarp();
      arrive(shared_.turn_done[turn % 2]);
    }
    if constexpr (stores_boxes) wait_until_boxes_are_read();
  }

 private:
  REGARD_DEVICE void multiply(u32 turn, const Turn& given, bool safe_softmax, WarpgroupRowState& rows,
                              OutputSums& o) {
    const auto tiles = given.visited();
    const VisibleTiles visible = given.visible[tiles_by_warpgroup ? warpgroup_ : 0];
    if constexpr (alibi) slopes_ = slopes_of(given);
    if constexpr (config::dropout) random_ = random_of(a_, given.work.sequence.batch, given.work.head);
    if constexpr (masked_by_row && !wide_heads) find_rows_of_mask(given);
    ForwardScores s;
    ForwardP p{};
    float factor[2];  // of O
    i32 tile = uniform(tiles.start());
    if constexpr (passes_tiles) {
      const i32 end = uniform(given.visible[pingpong ? consumers : warpgroup_].end);
#pragma unroll 1
      while (tile >= end && tiles.next(tile) >= 0) {  // the code below needs a tile
        pass_k();
        pass_v();
        tile = tiles.next(tile);
      }
    }
    // Below it every row has seen keys; for 8-bit types, which have little headroom, all keys of a tile.
    const i32 settled = safe_softmax ? 0 : eight_bits ? visible.whole.end - 1 : visible.begun;
    wait_for_q(turn);
    load_mask(given, tile);
    bool hidden = passes_first_scores && uniform(tile >= visible.end);
    if (hidden) {
      done_with_last_o(turn);
      pass_k();
    } else {
      begin_scores(s, turn);
      done_with_last_o(turn);
      wgmma_wait<0>();
      done_with_k();
    }
    const auto softmax = [&](bool first) {
      Kept kept;
      const auto draw = [&] {
        if constexpr (!config::dropout) return;
        const i32 of_rows[2] = {row_of(given.work, 0).row, row_of(given.work, 1).row};
        kept = Kept(random_, of_rows, given.work.first_key + tile * block_k, a_.dropout_keep);
      };
      const auto draw_early = [&] {
        if constexpr (draws_beside_exponentials) draw();
      };
      const bool rescales =
          !hidden && make_p(s, rows, factor, given, visible, tile, first ? tile : settled, draw_early);
      if constexpr (!draws_beside_exponentials) draw();
      wgmma_wait<0>();  // the first time too: otherwise ptxas would not see that O is ready
      if (!first) done_with_v();
      if (!hidden) pack(p, s);
      if (config::dropout && !hidden) kept.apply(p);
      if (rescales && !first) scale(o, factor);
      hidden = false;
    };
    const auto multiply_next = [&] {
      if constexpr (pingpong) named_sync(first_pingpong + warpgroup_);
      ForwardScores next;  // separate if the loop begins with the softmax, or registers would be copied
      begin_scores(peel_first ? s : next, turn);
      begin_output(o, p);
      if constexpr (pingpong)
        named_arrive(first_pingpong + (warpgroup_ + 1 == consumers ? 0 : warpgroup_ + 1));
      load_mask(given, tile);
      wgmma_wait<1>();
#pragma unroll
      for (i32 i = 0; !peel_first && i < block_k / 2; ++i) s[i] = next[i];
      done_with_k();
    };
    if constexpr (peel_first) {
      softmax(true);
#pragma unroll 1
      while ((tile = tiles.next(tile)) >= 0) {
        multiply_next();
        softmax(false);
      }
    } else {
#pragma unroll 1
      for (bool first = true;; first = false) {
        softmax(first);
        tile = tiles.next(tile);
        if (tile < 0) break;
        multiply_next();
      }
    }
    done_with_q(turn);
    begin_output(o, p);
    finish_output();
  }

  /// A tile's scores become weights, and their sums are added to the rows'. Most tiles keep row_max and
  /// compute no maximum (softmax.h). Returns whether O has to be rescaled by `factor`. The units that compute
  /// exponentials are the bottleneck, so what else each score needs is computed in the same instruction
  /// stream: its bias, and random bytes by `draw`.
  template <class Draw>
  REGARD_DEVICE bool make_p(ForwardScores& s, WarpgroupRowState& rows, float (&factor)[2], const Turn& given,
                            const VisibleTiles& visible, i32 tile, i32 settled, const Draw& draw) {
    bool whole = visible.is_whole(tile), stale;
    u32 seen[2];
    if constexpr (masked_by_row) {
      find_seen(seen, given, tile, whole);
      whole = whole && given.shows_all(tile);
      stale = !given.safe_softmax && !begins(rows, seen) && (!alibi || slopes_.fall(tile * block_k));
    } else {
      stale = whole && tile < settled && (!alibi || slopes_.fall(tile * block_k));
    }
    float row_max[2] = {rows.row_max[0], rows.row_max[1]}, sum[2], largest = 0;
    if constexpr (masked_by_row) {
#pragma unroll
      for (float& x : row_max) x = x == -infinity ? 0.f : x;  // of rows that have seen nothing yet
    }
    if (config::softcap && !has_bias && !config::row_max && stale && (!masked_by_row || whole) &&
        scores_.all_near_0(s)) {
      draw();
      largest = exponentials(s, row_max, sum, scores_.scale(),
                             [&](float product, i32, i32) { return scores_.apply_near_0(product); });
    } else if (alibi && !config::softcap && !eight_bits && stale && (!masked_by_row || whole)) {
      draw();
      largest = exponentials(s, row_max, sum, scores_.scale(),
                             slopes_.before_diagonal(scores_.scale_before_bias(), tile * block_k));
    } else {
      const i32 seen_keys = by_slices && !stale ? seen_by_warp(tile, given.work) : block_k;
      scores_.apply(s);
      if constexpr (alibi) slopes_.add(s, scores_.scale_before_bias(), tile * block_k);
      if (masked_by_row && !whole) hide_unseen(s, seen);
      if (config::row_max && stale) raise_largest(rows, s);
      if (!stale) {
        if (!masked_by_row && !whole) hide(s, tile, given.work);
        if constexpr (config::row_max) raise_largest(rows, s);
        update_row_max(s, rows, row_max, factor, scores_.scale(), given.safe_softmax);
        rows.sum[0] *= factor[0], rows.sum[1] *= factor[1];
        float part = 0;
        if constexpr (by_slices || peel_first) draw();
        if constexpr (by_slices)
          part = exponentials(s, row_max, sum, scores_.scale(), seen_keys);
        else if constexpr (peel_first)
          part = exponentials(s, row_max, sum, scores_.scale(), AsItIs());
        if constexpr (row_by_row) largest = part;
      }
      if (stale || !(by_slices || peel_first)) {
        draw();
        largest = exponentials(s, row_max, sum, scores_.scale(), AsItIs());
      }
    }
    rows.sum[0] += sum[0], rows.sum[1] += sum[1];
    // What has no row_max yet has no sum either.
    const bool may_be_large = stale || (row_by_row && !given.safe_softmax);
    return !may_be_large || (__any_sync(whole_warp, largest >= highest_p) && rescale_large(s, rows, factor));
  }

  /// Releases K or V of the next tile unused.
  REGARD_DEVICE void pass_k() {
    shared_.k_full[ring_k_.slot].wait(ring_k_.parity);
    __syncwarp();  // no thread still polls when the slot is released
    done_with_k();
  }
  REGARD_DEVICE void pass_v() {
    const i32 slot = ring_v_.slot;
    (eight_bits ? shared_.transposed_full : shared_.v_full)[slot].wait(ring_v_.parity);
    __syncwarp();
    done_with_v();
  }

  /// A factor of Q, K or V.
  REGARD_DEVICE float descale(const Rows& factors, const Turn& given) const {
    return factor_of(factors, given.work.sequence.batch, given.kv_head);
  }

  REGARD_DEVICE Slopes slopes_of(const Turn& given) const {
    const Sm90ForwardWork& work = given.work;
    float slope[2];
    i32 diagonal[2];
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const Row row = row_of(work, half);
      const i32 head = pack_gqa ? min(row.head, given.end_head - 1) : row.head;
      slope[half] = a_.alibi[work.sequence.batch * a_.alibi_batch + head];
      diagonal[half] = row.row + work.sequence.bottom_right() - work.first_key;
    }
    return {slope, diagonal};
  }

  REGARD_DEVICE void hide(ForwardScores& s, i32 tile, const Sm90ForwardWork& work) const {
    // Rows past the last one see the same keys as the last one, as in tiles_of.
    const i32 last = work.sequence.sq - 1,
              rows[2] = {min(row_of(work, 0).row, last), min(row_of(work, 1).row, last)};
    mask(s, tile * block_k, rows, window_of(work, a_));
  }

  /// Finds where the bits of the thread's rows are, and their ranges.
  REGARD_DEVICE void find_rows_of_mask(const Turn& given) {
    const Sm90ForwardWork& work = given.work;
    const u32* words[2];
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      const Row row = row_of(work, half);
      const i32 head = pack_gqa ? min(row.head, given.end_head - 1) : row.head;
      if constexpr (config::bits) words[half] = words_of_row(a_, work.sequence, head, row.row);
      if constexpr (config::ranges) ranges_[half] = range_of_row(a_, work.sequence, work.first_key, row.row);
    }
    if constexpr (config::bits) bits_ = {words, work.sequence.sk};
  }
  /// Loads what the tile's mask needs while products run. With wide heads there are no registers to keep
  /// addresses and ranges.
  REGARD_DEVICE void load_mask(const Turn& given, i32 tile) {
    if constexpr (masked_by_row && wide_heads) find_rows_of_mask(given);
    if constexpr (config::bits) {
      if (!given.shows_all(tile)) bits_.load(given.work.first_key + tile * block_k);
    }
  }
  /// One bit for each score of the thread's rows that is seen, by position, ranges and bits.
  REGARD_DEVICE void find_seen(u32 (&seen)[2], const Turn& given, i32 tile, bool whole_by_position) const {
    const Sm90ForwardWork& work = given.work;
    const bool all = given.shows_all(tile);
    const i32 column = tile * block_k + static_cast<i32>(threadIdx.x % 4) * 2;
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      seen[half] = all ? low_bits(block_k / 4) : bits_.scores_of_row(half, work.first_key + tile * block_k);
      if (whole_by_position) continue;
      const Window32 window = window_of(work, a_);
      const Range32 keys = window.keys_of(min(row_of(work, half).row, work.sequence.sq - 1));
      u32 of_window = scores_before(keys.end - column, 0);
      if (windowed && keys.begin > 0)
        of_window &= ~scores_before(keys.begin - column, 0) | scores_before(window.sinks - column, 0);
      if constexpr (config::ranges)
        of_window &=
            scores_before(ranges_[half].end - column, 0) & ~scores_before(ranges_[half].begin - column, 0);
      seen[half] &= of_window;
    }
  }
  /// Whether a row of the warp sees its first key, of those in `seen`.
  REGARD_DEVICE static bool begins(const WarpgroupRowState& rows, const u32 (&seen)[2]) {
    return __any_sync(whole_warp, (rows.row_max[0] == -infinity && seen[0] != 0) ||
                                      (rows.row_max[1] == -infinity && seen[1] != 0)) != 0;
  }

  /// An upper bound of how many of a tile's keys the warp's last row sees.
  REGARD_DEVICE i32 seen_by_warp(i32 tile, const Sm90ForwardWork& work) const {
    if constexpr (!by_slices) return block_k;
    const i32 last = row_of_warp(work).row + Sm90ForwardLayout::warp_rows - 1;
    return window_of(work, a_).keys_of(min(uniform(last), work.sequence.sq - 1)).end - tile * block_k;
  }

  /// Begins S = Q K^T of the next tile.
  REGARD_DEVICE void begin_scores(ForwardScores& s, u32 turn) {
    u32 q_address = memory_.q(q_slot(turn), warpgroup_);
    // Otherwise the compiler would keep the operands of all steps of wide heads in registers over all tiles.
    if constexpr (wide_heads) asm volatile("" : "+r"(q_address));
    const MatrixDescriptor q(q_address, 0), k(memory_.k(ring_k_.slot), 0);
    shared_.k_full[ring_k_.slot].wait(ring_k_.parity);
    if constexpr (gathered) make_visible_to_products();
    wgmma_fence();
    const auto bytes_to = [](i32 step, i32 rows) {
      return step / steps_per_box * rows * box_bytes + step % steps_per_box * step_bytes;
    };
    multiply_tiles<(config::d * element_bytes + step_bytes - 1) / step_bytes>(
        s, [&](i32 i) { return q.low_at(bytes_to(i, group_rows)); },
        [&](i32 i) { return k.low_at(bytes_to(i, block_k)); });
    wgmma_commit();
  }
  /// Every turn has its own Q, in the next slot of the ring.
  REGARD_DEVICE static i32 q_slot(u32 turn) { return static_cast<i32>(turn % q_stages); }
  REGARD_DEVICE void wait_for_q(u32 turn) {
    shared_.q_full[q_slot(turn)][warpgroup_].wait(turn / q_stages % 2);
  }
  /// Allows the slot to be loaded again, unless O is to be stored from there.
  REGARD_DEVICE void done_with_q(u32 turn) {
    if constexpr (!stores_boxes) arrive(shared_.q_empty[q_slot(turn)][warpgroup_]);
  }
  /// O of the last turn has left the slot of its Q.
  REGARD_DEVICE void done_with_last_o(u32 turn) {
    if (!stores_boxes || turn == 0 || threadIdx.x % wave != 0) return;
    wait_until_boxes_are_read();
    shared_.q_empty[q_slot(turn - 1)][warpgroup_].arrive();
  }
  REGARD_DEVICE void done_with_k() {
    release(shared_.k_empty[ring_k_.slot]);
    ring_k_.advance();
  }

  /// Begins O += P V.
  REGARD_DEVICE void begin_output(OutputSums& o, const ForwardP& p) {
    const i32 slot = ring_v_.slot;
    const MatrixDescriptor v(eight_bits ? memory_.transposed(slot) : memory_.v(slot), block_k * box_bytes);
    (eight_bits ? shared_.transposed_full : shared_.v_full)[slot].wait(ring_v_.parity);
    if constexpr (gathered) make_visible_to_products();
    wgmma_fence();
    multiply_p(o, p, [&](i32 i) {
      return v.low_at(eight_bits ? i / steps_per_box * columns * box_bytes + i % steps_per_box * step_bytes
                                 : i * 16 * box_bytes);
    });
    wgmma_commit();
  }
  REGARD_DEVICE void finish_output() {
    wgmma_wait<0>();
    done_with_v();
  }
  REGARD_DEVICE void done_with_v() {
    release((eight_bits ? shared_.transposed_empty : shared_.v_empty)[ring_v_.slot]);
    ring_v_.advance();
  }

  REGARD_DEVICE static void scale(OutputSums& o, const float (&factor)[2]) {
#pragma unroll
    for (i32 i = 0; i < columns / 2; ++i) o[i] *= factor[i / 2 % 2];
  }

  /// Stores O, LSE and row_max of the rows that have a bit in `row_mask`; destroys `o`.
  REGARD_DEVICE void store(u32 turn, const Turn& given, const WarpgroupRowState& rows, OutputSums& o,
                           u32 row_mask) {
    const Sm90ForwardWork& work = given.work;
    const float to_powers = given.safe_softmax ? scores_.scale() : 1,
                below = given.safe_softmax ? log2_p_at_max : 0;
    Row output_rows[2] = {row_of(work, 0), row_of(work, 1)};
    bool mine[2];
#pragma unroll
    for (i32 half = 0; half < 2; ++half) {
      Row& output_row = output_rows[half];
      mine[half] =
          output_row.row < work.sequence.sq && (row_mask >> (threadIdx.x % wave / 4 + 8 * half) & 1) != 0;
      if constexpr (!pack_gqa) continue;
      mine[half] = mine[half] && output_row.head < given.end_head;
      output_row.head = min(output_row.head, given.end_head - 1);
    }
    const RowEnd ends[2] = {
        {rows.row_max[0] * to_powers - below, quad_sum(rows.sum[0]), output_rows[0].head, a_},
        {rows.row_max[1] * to_powers - below, quad_sum(rows.sum[1]), output_rows[1].head, a_}};
    const float factor = eight_bits ? descale(a_.descale_v, given) : config::dropout ? a_.dropout_scale : 1;
    float row_max[2];
#pragma unroll
    for (i32 half = 0; config::row_max && half < 2; ++half)
      row_max[half] = row_max_of(rows.largest[half], ends[half].lse, scores_.scale());
    if constexpr (split_kv) {
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        if (!mine[half]) continue;
        const i64 row = row_number(a_, work.sequence, output_rows[half]),
                  row_index = work.number * rows_of_part(a_) + row;
        if (threadIdx.x % 4 == 0) a_.partial_lse[row_index] = ends[half].lse;
        if (config::row_max && threadIdx.x % 4 == 0) a_.partial_row_max[row_index] = row_max[half];
        store_part<columns>(a_.partial_o + row_index * config::dv, o, half, ends[half].scale * factor);
      }
      return;
    }
    if (a_.lse.data != nullptr && threadIdx.x % 4 == 0) {
      float* lse[2];
      addresses(a_.lse, work, output_rows, lse);
#pragma unroll
      for (i32 half = 0; half < 2; ++half)
        if (mine[half]) *lse[half] = ends[half].lse;
    }
    if (config::row_max && threadIdx.x % 4 == 0) {
      float* of_rows[2];
      addresses(a_.row_max, work, output_rows, of_rows);
#pragma unroll
      for (i32 half = 0; half < 2; ++half)
        if (mine[half]) *of_rows[half] = row_max[half];
    }
    if constexpr (stores_boxes) {
      // The other warps' products have also read Q.
      warpgroup_sync(first_pingpong + consumers + warpgroup_);
      BoxedOutput out(memory_.q(q_slot(turn), warpgroup_), o_);
      out.take<columns>(o, {ends[0].scale * factor, ends[1].scale * factor});
      const Row first = row_of_warp(work);
      if (!given.safe_softmax)
        out.store(work, first.row, ragged(a_), shared_.rows_per_batch[3]);
      else
        out.store_some(row_mask & low_bits(work.sequence.sq - first.row), address<u16>(a_.o, work, first),
                       a_.o.row);
      return;
    }
    u16* rows_of_o[2];
    addresses(a_.o, work, output_rows, rows_of_o);
    if constexpr (wide_heads) {
      // One body of code for both rows, because these kernels are the slowest to compile.
#pragma unroll 1
      for (i32 half = 0; half < 2; ++half) {
        const OutputRow<columns> row(o, 0, (half == 0 ? ends[0].scale : ends[1].scale) * factor);
        if (half == 0 ? mine[0] : mine[1]) row.store(half == 0 ? rows_of_o[0] : rows_of_o[1]);
#pragma unroll
        for (i32 i = 0; i < columns / 8; ++i) o[4 * i] = o[4 * i + 2], o[4 * i + 1] = o[4 * i + 3];
      }
    } else {
      const OutputRow<columns> out[2] = {{o, 0, ends[0].scale * factor}, {o, 1, ends[1].scale * factor}};
#pragma unroll
      for (i32 half = 0; half < 2; ++half)
        if (mine[half]) out[half].store(rows_of_o[half]);
    }
  }
  template <class T>
  REGARD_DEVICE static void addresses(const Rows& rows, const Sm90ForwardWork& work,
                                      const Row (&output_rows)[2], T* (&found)[2]) {
    found[0] = address<T>(rows, work, output_rows[0]);
    found[1] = pack_gqa ? address<T>(rows, work, output_rows[1]) : found[0] + 8 * rows.row;
  }
  template <class T>
  REGARD_DEVICE static T* address(const Rows& rows, const Sm90ForwardWork& work, const Row& row) {
    return regard::row_of<T>(rows, work.sequence.batch, row.head, work.sequence.first_q + row.row);
  }

  /// The warp's first row.
  REGARD_DEVICE Row row_of_warp(const Sm90ForwardWork& work) const {
    return {a_, work, warpgroup_ * group_rows + static_cast<i32>(threadIdx.x / wave % 4 * 16)};
  }
  /// This thread's first or second row.
  REGARD_DEVICE Row row_of(const Sm90ForwardWork& work, i32 half) const {
    return {a_, work,
            warpgroup_ * group_rows + static_cast<i32>(threadIdx.x / wave % 4 * 16 + threadIdx.x % wave / 4) +
                8 * half};
  }
  REGARD_DEVICE static void arrive(Barrier& barrier) {
    if (threadIdx.x % wave == 0) barrier.arrive();
  }
  /// Releases a tile to the threads that load the next one into its slot.
  REGARD_DEVICE static void release(Barrier& barrier) {
    if constexpr (cluster == 1) {
      arrive(barrier);
    } else if (threadIdx.x % wave < cluster) {
      arrive_in(threadIdx.x % wave, barrier);
    }
  }
  /// x of the first lane in every lane, so that it can be held in a uniform register.
  REGARD_DEVICE static i32 uniform(i32 x) { return __shfl_sync(whole_warp, x, 0); }

  const Sm90ForwardArguments& a_;
  const TensorMap& o_;
  Sm90ForwardShared& shared_;
  Sm90ForwardMemory memory_;
  i32 warpgroup_;  // 0 .. consumers - 1
  ForwardScoreScale scores_;
  Slopes slopes_;
  MaskBits bits_;
  Range32 ranges_[2];
  philox::Random random_;
  Ring<stages> ring_k_, ring_v_;
};

}  // namespace regard
