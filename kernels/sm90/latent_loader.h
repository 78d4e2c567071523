// The warpgroup that loads: its first warp takes work, hands it out in turns, and loads Q by TMA; all of its
// warps load tiles of K by TMA, as far ahead as there is room. A tile has up to 36 boxes, which one warp
// alone would issue one after the other.
#pragma once

#include "kernels/sm90/latent_shared.h"
#include "kernels/sm90/paged_rows.h"

namespace regard {

/// Used by a whole warpgroup.
class LatentLoader {
 public:
  REGARD_DEVICE LatentLoader(const Sm90ForwardArguments& a, const TensorMap& q, const TensorMap& k,
                             const TensorMap& rope, Sm90LatentShared& shared, Sm90LatentMemory memory)
      : a_(a), q_(q), k_(k), rope_(rope), shared_(shared), memory_(memory), order_(a, shared.ranking) {
    if (threadIdx.x == 0) {
      prefetch(q_);
      prefetch(k_);
      prefetch(rope_);
    }
    box_rows_ = paged ? a.box_k : block_k;
    row_parts_ = block_k / box_rows_;
    const i32 number = threadIdx.x / wave + loading_warps * lane();
    box_of_part_ = number / row_parts_;
    first_row_ = number % row_parts_ * box_rows_;
  }

  REGARD_DEVICE void run() {
    if (threadIdx.x < wave)
      lead();
    else
      follow();
  }

 private:
  REGARD_DEVICE static i32 lane() { return threadIdx.x % wave; }

  /// Where rows of K are. In a ragged map, `row` counts within the `count` rows from row first_of_k (or, of
  /// k_rope, first_of_rope) on; in other maps, within a batch.
  struct Place {
    i32 batch, row, first_of_k, first_of_rope, count;
  };

  REGARD_DEVICE void lead() {
    const u32 blocks = order_.count();
    u32 turn = 0;
#pragma unroll 1
    for (u32 index = blockIdx.x; index < blocks; index = next(index, blocks)) {
      const Sm90ForwardWork work = order_.at(index, 0);
      publish(turn, &work);
      load_q(shared_.turn[turn % 2], turn);
      load_k(shared_.turn[turn % 2]);
      ++turn;
    }
    publish(turn, nullptr);
  }

  REGARD_DEVICE void follow() {
#pragma unroll 1
    for (u32 turn = 0;; ++turn) {
      shared_.turn_full[turn % 2].wait(turn / 2 % 2);
      const Turn& given = shared_.turn[turn % 2];
      if (given.work.head < 0) return;
      load_k(given);
      __syncwarp();
      if (lane() == 0) shared_.turn_done[turn % 2].arrive();
    }
  }

  /// Work is taken from the counter only when the loads of the previous work have been issued, so that what
  /// is left at the end is spread evenly.
  REGARD_DEVICE u32 next(u32 index, u32 blocks) const {
    if (a_.counter == nullptr) return index + gridDim.x;
    u32 taken = 0;
    if (lane() == 0) taken = atomicInc(a_.counter, blocks - 1);  // 0 again after the last
    return gridDim.x + __shfl_sync(whole_warp, taken, 0);
  }

  /// Null `work` says that there is no more.
  REGARD_DEVICE void publish(u32 turn, const Sm90ForwardWork* work) {
    shared_.turn_done[turn % 2].wait(turn / 2 % 2 ^ 1);
    __syncwarp();
    if (lane() == 0) {
      Turn& given = shared_.turn[turn % 2];
      if (work != nullptr)
        given.set_work(*work, a_, window_of(*work, a_), {});
      else
        given.work.head = -1;
      shared_.turn_full[turn % 2].arrive();
    }
    __syncwarp();
  }

  /// The page table is read a tile ahead.
  REGARD_DEVICE void load_k(const Turn& turn) {
    i32 tile = turn.tiles.start();
    Place place = find(turn, tile);
#pragma unroll 1
    while (tile >= 0) {
      tile = turn.tiles.next(tile);
      const Place next = find(turn, tile);
      load_tile(turn, place);
      place = next;
    }
  }

  REGARD_DEVICE void load_q(const Turn& turn, u32 number) {
    shared_.q_empty.wait(number % 2 ^ 1);
    __syncwarp();  // threads that still poll must not see the phase wrap around
    if (lane() != 0) return;
    const Sequence32& s = turn.work.sequence;
    const Row first(a_, turn.work, 0);
    const MappedRows q{q_, ragged(a_), s.batch, s.batch * shared_.rows_per_batch[0] + s.first_q, s.sq};
    constexpr i32 bytes = static_cast<i32>(layout.q);
    shared_.q_full.expect(bytes);
    q.load<group_rows, Sm90LatentLayout::columns>(memory_.q(), bytes, shared_.q_full, first.head, first.row);
  }

  /// Each thread loads at most one box of a part. A box may arrive before its bytes are expected: the phase
  /// does not end before that.
  REGARD_DEVICE void load_tile(const Turn& turn, const Place& place) {
    const i32 slot = ring_.slot;
#pragma unroll 1
    for (i32 part = 0; part < parts_of_tile; ++part) {
      const BoxesOfPart some(part);
      shared_.k_empty[slot][part].wait(ring_.parity ^ 1);
      __syncwarp();
      const i32 expected = some.first + 2 * threadIdx.x;
      if (expected < some.first + some.count)
        shared_.k_full[slot][pair_of_box(expected)].expect(min(some.count, 2) * box_of_k);
      if (box_of_part_ >= some.count) continue;
      const i32 box = some.first + box_of_part_;
      load_box_of_k(memory_.k(slot, box) + first_row_ * box_bytes, shared_.k_full[slot][pair_of_box(box)],
                    box, place, turn.kv_head);
    }
    ring_.advance();
  }

  /// Where this thread's rows of a tile are; nothing for a negative tile. Reads the page table, but waits for
  /// nothing.
  REGARD_DEVICE Place find(const Turn& turn, i32 tile) const {
    if (tile < 0 || box_of_part_ >= boxes_of_half) return {};
    const i32 key = turn.work.first_key + tile * block_k + first_row_;
    const Sequence32& s = turn.work.sequence;
    if constexpr (paged) {
      const PagedRows pages{a_, turn};
      // A page without a visible key is not read: its entry of the table may be invalid.
      if (!pages.needed(key, key + box_rows_)) return {};
      const PagedRows::Place place = pages.find(key);
      return {0, place.row, place.page * shared_.rows_per_batch[1], place.page * shared_.rows_per_batch[2],
              place.count};
    }
    const i32 batch = static_cast<i32>(stored_sequence(a_.cache, s.batch));
    return {batch, key, batch * shared_.rows_per_batch[1] + s.first_k,
            batch * shared_.rows_per_batch[2] + s.first_k, s.sk};
  }

  REGARD_DEVICE void load_box_of_k(u32 to, const Barrier& full, i32 box, const Place& place,
                                   i32 kv_head) const {
    const bool apart = box == boxes - 1;
    const TensorMap& map = apart ? rope_ : k_;
    const i32 column =
        apart && a_.k_rope.data != nullptr ? 0 : box * static_cast<i32>(Sm90LatentLayout::columns);
    if (ragged(a_))
      load_ragged_box(to, map, full, column, place.row, apart ? place.first_of_rope : place.first_of_k,
                      place.count, kv_head);
    else
      load_box(to, map, full, column, place.row, kv_head, place.batch);
  }

  const Sm90ForwardArguments& a_;
  const TensorMap &q_, &k_, &rope_;
  Sm90LatentShared& shared_;
  Sm90LatentMemory memory_;
  Order order_;
  i32 box_rows_, row_parts_, box_of_part_, first_row_;
  Ring<stages> ring_;
};

}  // namespace regard
