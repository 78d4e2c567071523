// Forward attention: O = softmax(scale Q K^T) V, tiled, with an online softmax; no sq x sk array anywhere.
//
// A block is block_q query rows of one (batch, head) against one part of the keys; a wave has some of the
// rows, or half of the columns of two waves' rows, and keeps their output in registers. Tiles of K and V are
// loaded into rings in shared memory while others are multiplied. Tiles that no row sees are skipped, and
// only tiles that some row sees in part are masked. The instructions of each vendor's GPUs are in a separate
// folder (kernels/cuda/); the code here is common to all.
#include "kernels/machine/pdl.h"
#include "kernels/portable/block_q.h"
#include "kernels/portable/dropout.h"
#include "kernels/portable/keys.h"
#include "kernels/portable/mask.h"
#include "kernels/portable/p.h"
#include "kernels/portable/store.h"
#include "kernels/portable/work.h"
#include "kernels/tile_map.h"

namespace regard {

using BlockKeys = KeysOf<config::paged>;

/// What all threads of a block read occasionally; in shared memory because the inner loop has no registers
/// for it.
struct ForwardCommon {
  PortableForwardWork work;
  BlockKeyRange visible;
  Destination to;
  BlockKeys::Keys keys;
  Bits bits;
  ScoreBias bias;
  philox::Random random;
  PortableScoreScale scale;
  i32 sk;
  TileLines map;  // of the bits of these rows, if a stage has written it
};
static_assert(sizeof(ForwardCommon) <= layout.common);

/// Q, if it is not in registers, then the ring of K, that of V, P of waves that share rows, the common data,
/// and what rows see; at the end, rows to be stored.
struct PortableForwardMemory {
  u32 q, keys, values, p;
  float2* scratch;  // reuses the memory of P, which is made after this was used
  StagedRow* staged;
  ForwardCommon* common;
  RowKeyRanges visible;
  TileKeys keys_of_tiles;  // of two tiles

  REGARD_DEVICE explicit PortableForwardMemory(u8* dynamic)
      : q(shared_address(dynamic)), staged(reinterpret_cast<StagedRow*>(dynamic + first_free_byte)) {
    keys = q + layout.q;
    values = keys + stages * layout.keys;
    u8* rest = dynamic + layout.tiles;
    p = shared_address(rest);
    scratch = reinterpret_cast<float2*>(rest);
    static_assert(across == 1 || across * block_q * sizeof(float2) <= layout.p);
    rest += layout.p;
    common = reinterpret_cast<ForwardCommon*>(rest);
    visible = {&common->visible, reinterpret_cast<RowKeyRange*>(rest + layout.common)};
    rest += layout.common + layout.visible;
    keys_of_tiles = {reinterpret_cast<KeyPlace*>(rest), reinterpret_cast<KeyFactors*>(rest + layout.places)};
  }
};

class PortableForwardBlock {
 public:
  REGARD_DEVICE PortableForwardBlock(const PortableForwardArguments& a, const PortableForwardMemory& memory)
      : a_(a), memory_(memory), common_(*memory.common) {}

  REGARD_DEVICE void run(const PortableForwardWork& work) {
    const Head head = head_of(work);
    if (work.first_row >= rows_of(work, head).end_row) return;
    if (work.split >= parts_of_sequence(a_, static_cast<i32>(head.sequence.sk))) return;
    start(work, head);
#pragma unroll 1
    for (i32 column = 0; column < layout.dv; column += block_dv) {
      if constexpr (shares_tile)
        latent_columns(column);
      else
        columns(column);
    }
    if (config::dropout && a_.dropout_mask.data) {
      const PortableForwardWork& again = common_.work;
      write_dropout_mask({a_, again.batch, again.head}, common_.random, again.first_row, common_.to.rows);
    }
  }

 private:
  REGARD_DEVICE void start(const PortableForwardWork& work, const Head& head) {
    if (thread() == 0) {
      common_.work = work;
      common_.to = Destination(a_, head, work);
      common_.keys = BlockKeys::Keys(head);
      if constexpr (config::bits) {
        common_.bits = Bits(head, work.first_row);
        common_.map = tile_map_of(a_, head.batch, head.head)
                          .of_rows(work.first_row, work.first_row + common_.bits.rows);
      }
      common_.bias = ScoreBias(head, work.first_row);
      if constexpr (config::dropout) common_.random = random_of(a_, head.batch, head.head);
      common_.scale = PortableScoreScale(head);
      common_.sk = static_cast<i32>(head.sequence.sk);
    }
    q_.load(memory_.q, source_of_q(head), rows_of(work, head));
    const TileBounds rows = rows_of(work, head);
    memory_.visible.find(a_, a_, head.sequence, {rows.first_row, rows.end_row},
                         PackedRows(packs_rows ? a_.pack_gqa : 1), work.split);
  }

  REGARD_DEVICE Head head_of(const PortableForwardWork& work) const {
    Head head(a_, work.batch, work.head);
    if constexpr (!packs_rows) head.sequence.sq *= a_.pack_gqa;
    return head;
  }
  REGARD_DEVICE SourceOfQ<packs_rows> source_of_q(const Head& head) const {
    return {head.q(0), a_.q, a_.pack_gqa};
  }
  REGARD_DEVICE TileBounds rows_of(const PortableForwardWork& work, const Head& head) const {
    const i64 rows = packs_rows ? head.sequence.sq * a_.pack_gqa : head.sequence.sq;
    return {work.first_row, static_cast<i32>(rows), 0, config::d};
  }

  /// The first tile from the one at `key` on that some row sees.
  REGARD_DEVICE i32 tile_from(i32 key) const {
    key = common_.visible.tile_from(key);
    if constexpr (config::bits) {
      if (common_.map.exist()) return mapped_tile_from(key);
      while (is_tile(key) && !common_.bits.any(key)) key = common_.visible.tile_from(key + block_k);
    }
    return key;
  }
  REGARD_DEVICE bool is_tile(i32 key) const { return key < common_.visible.any.end; }

  /// The same for a tile that some row sees by position, by the map of the bits.
  REGARD_DEVICE i32 mapped_tile_from(i32 key) const {
#pragma unroll 1
    while (is_tile(key)) {
      const i32 seen = common_.map.first_seen(key, common_.visible.any.end);
      if (!is_tile(seen)) return seen;
      const i32 tile = larger(key, seen / block_k * block_k);
      key = common_.visible.tile_from(tile);
      if (key == tile) break;
    }
    return key;
  }
  /// Whether all rows are known to see all keys of a tile, which exist.
  REGARD_DEVICE bool map_sees_all(i32 key) const {
    return common_.map.exist() && common_.map.whole(key, key + block_k);
  }

  /// The current tile and those that follow. Only bits make them expensive to find; without bits, only the
  /// first is kept.
  using Tiles = i32[stages + 1];
  REGARD_DEVICE i32 following(const Tiles& tiles, i32 i) const {
    if constexpr (config::bits) return tiles[i];
    i32 key = tiles[0];
#pragma unroll
    for (; i > 0; --i) key = tile_from(key + block_k);
    return key;
  }
  REGARD_DEVICE void advance(Tiles& tiles) const {
#pragma unroll
    for (i32 i = 0; i < stages; ++i) tiles[i] = tiles[i + 1];
    tiles[stages] = tile_from(tiles[stages] + block_k);
  }

  /// K and V on their way.
  struct Copies {
    BlockKeys::Copy<block_k, block_d, layout.row_of_k, stages == 1> keys;
    BlockKeys::Copy<block_k, block_dv, layout.row_of_v, stages == 1 && !shares_tile> values;
  };
  /// Where a tile's keys are, for kernels that find it: neighbouring tiles take turns.
  REGARD_DEVICE TileKeys tile_keys(i32 turn) const {
    const i32 first = config::paged ? (turn & 1) * block_k : 0;
    return {memory_.keys_of_tiles.places + first, memory_.keys_of_tiles.factors + first};
  }
  REGARD_DEVICE decltype(auto) source(i32 turn, bool values) const {
    return common_.keys.source(a_, tile_keys(turn), values);
  }
  REGARD_DEVICE u32 keys_in(i32 slot) const { return memory_.keys + slot * layout.keys; }
  REGARD_DEVICE u32 values_in(i32 slot) const { return memory_.values + slot * layout.values; }

  /// Past the last tile there is nothing to load, but the group still counts.
  template <class Copy, class Source>
  REGARD_DEVICE void load(Copy& copy, u32 to, const Source& from, i32 key, i32 first_column,
                          i32 end_column) const {
    if (is_tile(key)) copy.begin(to, from, {key, common_.sk, first_column, end_column});
    end_copies();
  }
  REGARD_DEVICE void load_keys(Copies& copies, i32 key, i32 slot, i32 turn, i32 first_column) const {
    load(copies.keys, keys_in(slot), source(turn, false), key, first_column, config::d);
  }
  REGARD_DEVICE void load_values(Copies& copies, i32 key, i32 slot, i32 turn, i32 first_column) const {
    load(copies.values, values_in(slot), source(turn, true), key, first_column, config::dv);
  }

  /// Those of a tile that is about to be loaded.
  REGARD_DEVICE void find_places(i32 key, i32 turn) const {
    BlockKeys::Places found;
    found.begin(a_, common_.keys, common_.visible, key);
    sync_block();  // those of the tile before the last are no longer read
    found.end(a_, common_.keys, tile_keys(turn));
    sync_block();
  }

  /// Starts the loads that are pending when the first tile begins, which is then in tiles[0]. A loop,
  /// because the compiler takes long for each load; K and V share one if they have the same shape and are
  /// loaded whole.
  REGARD_DEVICE void load_first(Copies& copies, Tiles& tiles, i32 first_column) const {
    constexpr bool same_layout = config::d == config::dv && block_d == layout.d && block_d == block_dv;
    static_assert(!same_layout || (layout.row_of_k == layout.row_of_v && layout.keys == layout.values));
    tiles[stages] = tile_from(common_.visible.any.begin / block_k * block_k);
#pragma unroll 1
    for (i32 i = 0; i < 2 * stages - 1; ++i) {
      const i32 key = tiles[stages], slot = i / 2;
      const bool values = i % 2 != 0;
      if (config::paged && !values) find_places(key, slot);
      if constexpr (same_layout)
        load(copies.keys, (values ? memory_.values : memory_.keys) + slot * layout.keys, source(slot, values),
             key, 0, config::d);
      else if (values)
        load_values(copies, key, slot, slot, first_column);
      else
        load_keys(copies, key, slot, slot, 0);
      if (values) advance(tiles);
    }
    advance(tiles);
  }

  /// Scores of the tile in `slot`. If K does not fit at once, it is loaded step by step, and reloaded to be
  /// multiplied `again`.
  REGARD_DEVICE void multiply_keys(Scores& s, Copies& copies, i32 key, i32 slot, i32 turn, bool again) const {
#pragma unroll
    for (i32 m = 0; m < row_tiles; ++m)
#pragma unroll
      for (i32 n = 0; n < key_tiles; ++n) s[m][n] = {};
    const u32 k = memory_.keys + slot * layout.keys + part_of_wave() * wave_keys * layout.row_of_k;
#pragma unroll 1
    for (i32 step = 0; step < steps_d; ++step) {
      constexpr bool loads_q = layout.q_place == QPlace::shared_part;
      const bool loads_k = step > 0 || (steps_d > 1 && again);
      if (loads_q || loads_k) {
        sync_block();
        if (loads_k) load_keys(copies, key, slot, turn, step * block_d);
        if constexpr (loads_q) {
          const Head head = head_of(common_.work);
          q_.load_part(memory_.q, source_of_q(head), rows_of(common_.work, head), step);
        }
        if (loads_k) copies.keys.template arrive<0>(keys_in(slot), source(turn, false));
        sync_block();
      }
      Multiply::add<block_d>(s, q_.of_wave(memory_.q, step), WaveK(k, 0));
    }
  }

  /// The factors of the wave's keys.
  REGARD_DEVICE const KeyFactors* first_factor(i32 turn) const {
    return tile_keys(turn).factors + part_of_wave() * wave_keys;
  }

  /// The weights of a tile, which are added to the rows' sums. If some come out too large, the scores are
  /// multiplied once more, as K is still in memory, and row_max is updated. Ends when V is visible to all
  /// and K is no longer read.
  REGARD_DEVICE void make_p_of_tile(P& p, Copies& copies, const BlockKeys::Places& next, i32 key, i32 slot,
                                    i32 turn, WaveRowState& rows, Output& o) const {
    const i32 first_key = key + part_of_wave() * wave_keys;
    constexpr u32 once_more = 1u << 31;
    // The map is read before there are scores, which leave no registers for that.
    const bool has_unseen_bits = config::bits && !map_sees_all(key);
    RowNumbers sum;
    u32 large = 0;
#pragma unroll 1
    for (;;) {
      Scores s;
      multiply_keys(s, copies, key, slot, turn, large != 0);
      const PortableScoreScale scale = common_.scale;  // read here, because there are no registers to keep it
      if constexpr (key_factors) scale_columns(s, first_factor(turn), false);
      if (changes_scores || scale.before != 1.0f)
        change_scores(s, common_.bias, first_key, scale.before, a_.softcap);
      if (!common_.visible.sees_tile(key) || has_unseen_bits)
        mask(s, memory_.visible, common_.bits, first_key, common_.sk);
      if constexpr (config::row_max) raise_largest(rows, s);
      if (large != 0 || !rows.settled) {
        RowNumbers factor;
        update_row_max({s, large, memory_.scratch}, rows, scale.log2, factor);
        rescale(o, factor);
      }
      const u32 found = make_p(s, rows, scale.log2, sum);
      if constexpr (scales_p) scale_columns(s, first_factor(turn), true);
      p.pack(s);
      if constexpr (config::dropout)
        drop(p, common_.random, a_.dropout_keep, common_.work.first_row, first_key);
      p.share();
      next.end(a_, common_.keys, tile_keys(turn + 1));
      bool again = large == 0 && found != 0;
      if constexpr (blocks_vote)
        again = meet_for_values(copies, slot, turn, again);
      else
        again = any_in_wave(again);
      if (!again) break;
      large = found | once_more;
    }
    if constexpr (!blocks_vote) meet_for_values(copies, slot, turn, false);
    each_row([&](i32 m, i32 half) { rows.sum[m][half] += sum[m][half]; });
  }
  /// Whether the whole block decides to multiply again: if waves share rows, or K comes in steps, they do so
  /// together.
  static constexpr bool blocks_vote = steps_d > 1 || across > 1;
  /// Whether any of them has to multiply again.
  REGARD_DEVICE bool meet_for_values(const Copies& copies, i32 slot, i32 turn, bool again) const {
    if constexpr (!shares_tile) copies.values.template arrive<pending>(values_in(slot), source(turn, true));
    if constexpr (blocks_vote) return any_in_block(again);
    sync_block();
    return false;
  }
  static constexpr i32 pending = 2 * (stages - 1);

  /// The columns [first_column, first_column + block_dv) of O. The copies of K and of V of a tile are one
  /// group each, K first; `stages` tiles of K and one fewer of V are being copied when a tile begins.
  REGARD_DEVICE void columns(i32 first_column) {
    Output o = {};
    WaveRowState rows;
    Tiles tiles = {};
    Copies copies;
    load_first(copies, tiles, first_column);
    i32 turn = stages - 1;  // of the last tile whose places were found
#pragma unroll 1
    for (i32 slot = 0; is_tile(tiles[0]); slot = slot + 1 < stages ? slot + 1 : 0) {
      copies.keys.template arrive<pending>(keys_in(slot), source(turn, false));
      sync_block();  // K is visible to all, and the last V is no longer read
      load_values(copies, following(tiles, stages - 1), slot > 0 ? slot - 1 : stages - 1, turn, first_column);
      BlockKeys::Places next;
      if constexpr (config::paged) next.begin(a_, common_.keys, common_.visible, following(tiles, stages));
      P p(memory_.p);
      make_p_of_tile(p, copies, next, tiles[0], slot, turn, rows, o);
      if constexpr (config::paged) ++turn;
      load_keys(copies, following(tiles, stages), slot, turn, 0);
      const WaveV v(values_in(slot), part_of_wave());
      Multiply::add<block_k>(o, p.operand_a(), v);
      if constexpr (config::bits)
        advance(tiles);
      else
        tiles[0] = following(tiles, 1);
    }
    wait_for_copies<0>();
    sync_block();
    store(a_, common_.work, common_.to, memory_.staged, rows, o, first_column, common_.scale.natural);
    if constexpr (layout.dv > block_dv) sync_block();
  }

  /// The same where V is the first columns of K: a tile is kept until P has been multiplied with it, and
  /// `stages` of them are in memory or on their way.
  REGARD_DEVICE void latent_columns(i32 first_column) {
    Output o = {};
    WaveRowState rows;
    Tiles tiles = {};
    Copies copies;
    tiles[stages] = tile_from(common_.visible.any.begin / block_k * block_k);
#pragma unroll 1
    for (i32 i = 0; i < stages; ++i) {
      find_places(tiles[stages], i);
      load_keys(copies, tiles[stages], i, i, 0);
      advance(tiles);
    }
    i32 turn = stages - 1;  // of the last tile whose places were found
#pragma unroll 1
    for (i32 slot = 0; is_tile(tiles[0]); slot = slot + 1 < stages ? slot + 1 : 0) {
      copies.keys.template arrive<stages - 1>(keys_in(slot), source(turn, false));
      sync_block();
      BlockKeys::Places next;
      next.begin(a_, common_.keys, common_.visible, following(tiles, stages));
      P p(memory_.p);
      make_p_of_tile(p, copies, next, tiles[0], slot, turn, rows, o);
      ++turn;
      const WaveV v(keys_in(slot) + first_column * operand_bytes, part_of_wave());
      Multiply::add<block_k>(o, p.operand_a(), v);
      sync_block();  // the tile is no longer read
      load_keys(copies, following(tiles, stages), slot, turn, 0);
      if constexpr (config::bits)
        advance(tiles);
      else
        tiles[0] = following(tiles, 1);
    }
    wait_for_copies<0>();
    sync_block();
    store(a_, common_.work, common_.to, memory_.staged, rows, o, first_column, common_.scale.natural);
    if constexpr (layout.dv > block_dv) sync_block();
  }

  const PortableForwardArguments& a_;
  const PortableForwardMemory memory_;
  ForwardCommon& common_;
  BlockQ<layout.q_place> q_;
};

}  // namespace regard

REGARD_KERNEL(regard::PortableForwardArguments, regard::threads,
              regard::config::occupancy > 0 ? regard::config::occupancy : 1) {
  REGARD_DYNAMIC_MEMORY(dynamic, regard::tile_alignment);
  regard::wait_on_dependent_grids();  // append.cu
  regard::PortableForwardBlock(arguments, regard::PortableForwardMemory(dynamic))
      .run(regard::PortableForwardWork(arguments, regard::block_index()));
}
