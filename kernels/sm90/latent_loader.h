// The warp that takes work, hands it out to the two warpgroups in turns, and loads Q and K by TMA, as far
// ahead as there is room.
#pragma once

#include "kernels/sm90/latent_shared.h"
#include "kernels/sm90/paged_rows.h"

namespace regard {

/// Used by a whole warp.
class LatentLoader {
 public:
  REGARD_DEVICE LatentLoader(const Sm90ForwardArguments& a, const TensorMap& q, const TensorMap& k,
                             const TensorMap& rope, Sm90LatentShared& shared, Sm90LatentMemory memory)
      : a_(a), q_(q), k_(k), rope_(rope), shared_(shared), memory_(memory), order_(a, shared.ranking) {
    if (lane() == 0) {
      prefetch(q_);
      prefetch(k_);
      prefetch(rope_);
    }
    box_rows_ = paged ? a.box_k : block_k;
    row_parts_ = block_k / box_rows_;
    first_row_ = lane() % row_parts_ * box_rows_;
  }

  REGARD_DEVICE void run() {
    const u32 blocks = order_.count();
    u32 turn = 0;
#pragma unroll 1
    for (u32 index = blockIdx.x; index < blocks; index = next(index, blocks)) {
      const Sm90ForwardWork work = order_.at(index, 0);
      publish(turn, &work);
      load(shared_.turn[turn % 2], turn);
      ++turn;
    }
    publish(turn, nullptr);
  }

 private:
  REGARD_DEVICE static i32 lane() { return threadIdx.x % wave; }

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
        given.set_work(*work, a_, window_of(*work, a_));
      else
        given.work.head = -1;
      shared_.turn_full[turn % 2].arrive();
    }
    __syncwarp();
  }

  REGARD_DEVICE void load(const Turn& turn, u32 number) {
    load_q(turn, number);
#pragma unroll 1
    for (i32 tile = turn.tiles.start(); tile >= 0; tile = turn.tiles.next(tile))
      load_tile(turn, turn.work.first_key + tile * block_k);
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

  /// Each lane loads at most one box of a part.
  REGARD_DEVICE void load_tile(const Turn& turn, i32 first_key) {
    const Place place = find(turn, first_key + first_row_);
    const i32 slot = ring_.slot;
#pragma unroll 1
    for (i32 part = 0; part < parts_of_tile; ++part) {
      const BoxesOfPart some(part);
      shared_.k_empty[slot][part].wait(ring_.parity ^ 1);
      __syncwarp();
      const i32 expected = some.first + 2 * lane();
      if (expected < some.first + some.count)
        shared_.k_full[slot][pair_of_box(expected)].expect(min(some.count, 2) * box_of_k);
      __syncwarp();  // the bytes are expected
      const i32 in_part = lane() / row_parts_, box = some.first + in_part;
      if (in_part >= some.count) continue;
      load_box_of_k(memory_.k(slot, box) + first_row_ * box_bytes, shared_.k_full[slot][pair_of_box(box)],
                    box, place, turn.kv_head);
    }
    ring_.advance();
  }

  /// Where rows of K are: from `row` on. In a ragged map, `row` counts within the `count` rows that begin at
  /// number first_of_k (first_of_rope); in others, within a batch.
  struct Place {
    i32 batch, row, first_of_k, first_of_rope, count;
  };

  /// Reads the page table, but waits for nothing.
  REGARD_DEVICE Place find(const Turn& turn, i32 key) const {
    const Sequence32& s = turn.work.sequence;
    if constexpr (paged) {
      const PagedRows pages{a_, turn};
      // Nothing is read of a page of which no row belongs to the sequence.
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
  i32 box_rows_, row_parts_, first_row_;
  Ring<stages> ring_;
};

}  // namespace regard
