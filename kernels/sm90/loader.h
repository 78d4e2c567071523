// Loads tiles of Q, K and V by TMA: each as far ahead as its ring has room.
#pragma once

#include "kernels/sm90/gathered_keys.h"
#include "kernels/sm90/mapped_rows.h"
#include "kernels/sm90/paged_keys.h"
#include "kernels/sm90/shared.h"

namespace regard {

/// Loads Q of each turn: each warpgroup's own rows, as soon as it has finished the previous ones.
class QueryLoader {
 public:
  REGARD_DEVICE QueryLoader(const Sm90ForwardArguments& a, const TensorMap& q, Sm90ForwardShared& shared,
                            Sm90ForwardMemory memory)
      : a_(a), q_(q), shared_(shared), memory_(memory) {
    if (threadIdx.x % wave == 0) prefetch(q_);
  }

  REGARD_DEVICE void load(const Turn& turn, bool ragged) {
    const i32 slot = ring_.slot;
    const Sequence32& s = turn.work.sequence;
#pragma unroll 1
    for (i32 i = 0; i < consumers; ++i) {
      shared_.q_empty[slot][i].wait(ring_.parity ^ 1);
      __syncwarp();  // threads that still poll must not see the phase wrap around
      if (threadIdx.x % wave != 0) continue;
      const Row first(a_, turn.work, i * group_rows);
      const MappedRows q{q_, ragged, s.batch, s.batch * shared_.rows_per_batch[0] + s.first_q, s.sq};
      constexpr i32 bytes = static_cast<i32>(layout.q / consumers);
      Barrier& full = shared_.q_full[slot][i];
      full.expect(bytes);
      q.load<group_rows, layout.columns>(memory_.q(slot, i), bytes, full, first.head, first.row);
    }
    ring_.advance();
  }

 private:
  const Sm90ForwardArguments& a_;
  const TensorMap& q_;
  Sm90ForwardShared& shared_;
  Sm90ForwardMemory memory_;
  Ring<q_stages> ring_;
};

/// Loads K or V of the tiles of each turn. Which of the two is known only at run time: one body of code
/// serves two warps.
class KeyLoader {
 public:
  REGARD_DEVICE KeyLoader(const Sm90ForwardArguments& a, const TensorMap& map, Sm90ForwardShared& shared,
                          Sm90ForwardMemory memory, bool of_v)
      : a_(a),
        map_(map),
        empty_(of_v ? shared.v_empty : shared.k_empty),
        full_(of_v ? shared.v_full : shared.k_full),
        rows_per_batch_(shared.rows_per_batch[of_v ? 2 : 1]),
        address_(of_v ? memory.v(0) : memory.k(0)),
        bytes_(static_cast<i32>(of_v ? layout.v : layout.k)),
        of_v_(of_v) {
    if (threadIdx.x % wave == 0) prefetch(map_);
  }

  REGARD_DEVICE void load(const Turn& turn, bool ragged) {
    if constexpr (gathered) return gather(turn);
#pragma unroll 1
    for (i32 tile = turn.visited().start(); tile >= 0; tile = turn.visited().next(tile))
      load_tile(turn, tile, ragged);
  }

  REGARD_DEVICE void load_tile(const Turn& turn, i32 tile, bool ragged) {
    const u32 to = free_slot();
    Barrier& full = full_[ring_.slot];
    if (threadIdx.x % wave == 0) full.expect(bytes_);
    load_boxes(turn, turn.work.first_key + tile * block_k, ragged, to, full);
    ring_.advance();
  }

 private:
  /// Waits for room for a tile.
  REGARD_DEVICE u32 free_slot() const {
    empty_[ring_.slot].wait(ring_.parity ^ 1);
    __syncwarp();
    return address_ + ring_.slot * bytes_;
  }

  /// Finds the rows of the next tile while those of a tile are copied, if there are registers for the places
  /// of both.
  REGARD_DEVICE void gather(const Turn& turn) {
    i32 tile = turn.visited().start();
    if (tile < 0) return;
    if constexpr (block_k > most_keys_ahead) {
#pragma unroll 1
      for (; tile >= 0; tile = turn.visited().next(tile)) copy(find(turn, tile), turn);
      return;
    }
    GatheredRows rows = find(turn, tile);
#pragma unroll 1
    while ((tile = turn.visited().next(tile)) >= 0) {
      const GatheredRows next = find(turn, tile);
      copy(rows, turn);
      rows = next;
    }
    copy(rows, turn);
  }
  REGARD_DEVICE GatheredRows find(const Turn& turn, i32 tile) const {
    return GatheredRows({a_, turn}, turn.work.first_key + tile * block_k);
  }
  REGARD_DEVICE void copy(const GatheredRows& rows, const Turn& turn) {
    const i32 row_bytes = static_cast<i32>(of_v_ ? config::dv : config::d) * element_bytes;
    const u32 to = free_slot();
    rows.copy(of_v_ ? a_.v : a_.k, turn.kv_head, to, bytes_, row_bytes, full_[ring_.slot]);
    ring_.advance();
  }

  REGARD_DEVICE void load_boxes(const Turn& turn, i32 first_key, bool ragged, u32 to,
                                const Barrier& full) const {
    if constexpr (paged && !gathered) {
      __syncwarp();  // the bytes are expected
      const PagedKeys keys{map_, rows_per_batch_, a_.box_k, {a_, turn}};
      keys.load<layout.columns>(to, bytes_, full, first_key);
    } else if (threadIdx.x % wave == 0) {
      const Sequence32& s = turn.work.sequence;
      const i32 batch = caches ? static_cast<i32>(stored_sequence(a_.cache, s.batch)) : s.batch;
      const MappedRows keys{map_, ragged, batch, batch * rows_per_batch_ + s.first_k, s.sk};
      keys.load<block_k, layout.columns, cluster>(to, bytes_, full, turn.kv_head, first_key);
    }
  }

  static constexpr i32 most_keys_ahead = 96;

  const Sm90ForwardArguments& a_;
  const TensorMap& map_;
  Barrier *empty_, *full_;
  i32 rows_per_batch_;
  u32 address_;
  i32 bytes_;  // of a tile
  bool of_v_;
  Ring<stages> ring_;
};

/// Q, K and V of each turn by one warp.
class AllLoader {
 public:
  REGARD_DEVICE AllLoader(const Sm90ForwardArguments& a, const TensorMap& q, const TensorMap& k,
                          const TensorMap& v, Sm90ForwardShared& shared, Sm90ForwardMemory memory)
      : q_(a, q, shared, memory), k_(a, k, shared, memory, false), v_(a, v, shared, memory, true) {}

  REGARD_DEVICE void load(const Turn& turn, bool ragged) {
    q_.load(turn, ragged);
#pragma unroll 1
    for (i32 tile = turn.tiles.start(); tile >= 0; tile = turn.tiles.next(tile)) {
      k_.load_tile(turn, tile, ragged);
      v_.load_tile(turn, tile, ragged);
    }
  }

 private:
  QueryLoader q_;
  KeyLoader k_, v_;
};

/// Loads every turn that is handed out, by one warp; `tells` makes it signal when it has loaded one.
template <class Loader>
REGARD_DEVICE void load_turns(Loader loader, const Sm90ForwardArguments& a, Sm90ForwardShared& shared,
                              bool tells) {
#pragma unroll 1
  for (u32 turn = 0;; ++turn) {
    shared.turn_full[turn % 2].wait(turn / 2 % 2);
    const Turn& given = shared.turn[turn % 2];
    if (given.work.head < 0) return;
    loader.load(given, ragged(a));
    __syncwarp();
    if (threadIdx.x % wave != 0) continue;
    if (tells) shared.turn_loaded[turn % 2].arrive();
    shared.turn_done[turn % 2].arrive();
  }
}

}  // namespace regard
