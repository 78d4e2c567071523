// Writes the visibility bits of a mask that is a function, and their map of tiles, for the stages after this
// one. It is compiled for the function. A block has the rows of some neighbouring tiles. It first finds the
// tiles that are known from the least and the greatest numbers that the function has for their rows and keys.
// In the others it evaluates each pair: a thread has one of the rows, so that what depends on the row alone
// is computed once, and neighbouring threads have neighbouring rows, and read the same keys at the same time.
#include "kernels/machine/number.h"
#include "kernels/machine/thread.h"
#include "kernels/portable/bits_schedule.h"
#include "kernels/portable/mask_place.h"
#include "kernels/sequence.h"
// The text of the function: last, as it uses the other files.
#include "kernels/function/generated.h"

namespace regard {

/// The tiles of a block.
struct MaskWork {
  i64 batch, head;
  i32 row_tile, first_tile;

  REGARD_DEVICE explicit MaskWork(const PortableBitsArguments& a) {
    // In 32 bits, which hold any grid, because a 64-bit division is a function call.
    const u32 tiles = static_cast<u32>(a.tiles),
              chunks = (static_cast<u32>(map_tiles(a.sk)) + tiles - 1) / tiles,
              row_tiles = static_cast<u32>(map_tiles(a.sq)), heads = a.head != 0 ? static_cast<u32>(a.hq) : 1;
    u32 index = block_index();
    first_tile = static_cast<i32>(index % chunks * tiles);
    index /= chunks;
    row_tile = static_cast<i32>(index % row_tiles);
    index /= row_tiles;
    head = index % heads;
    batch = index / heads;
  }
};

/// The place of the tiles' first row and key.
REGARD_DEVICE MaskPlace place_of(const PortableBitsArguments& a, const Sequence& sequence,
                                 const MaskWork& work) {
  const i64 row = i64{work.row_tile} * map_tile, key = i64{work.first_tile} * map_tile;
  const i64 first_q = a.offsets_q ? sequence.first_q : work.batch * a.sq,
            first_k = a.offsets_k ? sequence.first_k : work.batch * a.sk;
  MaskPlace at;
  at.b = static_cast<i32>(work.batch), at.h = static_cast<i32>(work.head);
  at.hk = at.h / (static_cast<i32>(a.hq) / static_cast<i32>(a.hk));
  at.q = static_cast<i32>(row), at.p = static_cast<i32>(row + sequence.bottom_right());
  at.sq = static_cast<i32>(sequence.sq), at.sk = static_cast<i32>(sequence.sk);
  at.tq = static_cast<i32>(first_q + row);
  at.kv = static_cast<i32>(key), at.tk = static_cast<i32>(first_k + key);
  return at;
}

/// What threads have found in the tiles of their block, one bit for each.
struct FoundTiles {
  u32 seen, hidden;  // whether some pair is

  REGARD_DEVICE void add(i32 tile, u32 bits, u32 existing) {
    seen |= u32{(bits & existing) != 0} << tile;
    hidden |= u32{(~bits & existing) != 0} << tile;
  }
  REGARD_DEVICE void join(const FoundTiles& other) { seen |= other.seen, hidden |= other.hidden; }
  /// With those of the other lanes.
  REGARD_DEVICE void join_wave() {
#pragma unroll
    for (i32 distance = wave / 2; distance > 0; distance /= 2)
      join({from_lane(seen, lane() ^ distance), from_lane(hidden, lane() ^ distance)});
  }
  REGARD_DEVICE TileState state(i32 tile) const {
    return (seen >> tile & 1) == 0 ? unseen_tile : (hidden >> tile & 1) == 0 ? whole_tile : mixed_tile;
  }
};

/// What a block has before it goes to global memory, where words of a row are neighbours.
struct MaskMemory {
  u32 words[map_tile][2 * most_mask_tiles + 1];  // one more, so that rows are in different banks
  FoundTiles of_waves[mask_threads / wave];
  u8 known[most_mask_tiles];
};
static_assert(sizeof(MaskMemory) <= mask_memory);

enum Known : u8 { nothing_seen, all_seen, unknown };

class MaskBlock {
 public:
  REGARD_DEVICE MaskBlock(const PortableBitsArguments& a, const MaskWork& work, const Sequence& sequence,
                          MaskMemory& memory)
      : a_(a),
        work_(work),
        memory_(memory),
        first_(place_of(a, sequence, work)),
        rows_(smaller(map_tile, first_.sq - first_.q)),
        tiles_(static_cast<i32>(smaller<i64>(a.tiles, map_tiles(sequence.sk) - work.first_tile))) {}

  REGARD_DEVICE void run() const {
    find_known();
    sync_block();
    find_words();
    sync_block();
    store();
  }

 private:
  /// Of a row and a key of the block; those past the last one repeat it.
  REGARD_DEVICE MaskPlace place(i32 row, i32 key) const {
    MaskPlace at = first_;
    row = smaller(row, rows_ - 1), key = smaller(key, at.sk - 1 - at.kv);
    at.q += row, at.p += row, at.tq += row;
    at.kv += key, at.tk += key;
    return at;
  }

  /// Which tiles are known without evaluating each pair: some lanes share the rows and keys of each tile.
  REGARD_DEVICE void find_known() const {
    const i32 lanes = mask_threads / static_cast<i32>(a_.tiles), tile = thread() / lanes;
    RowIntervals rows = {};
    KeyIntervals keys = {};
#pragma unroll 1
    for (i32 i = thread() % lanes, first = i; i < map_tile; i += lanes) {
      u32 of_row[sizeof rows.low / 4], of_key[sizeof keys.low / 4];
      const MaskPlace at = place(i, tile * map_tile + i);
      numbers_of_row(a_.call, at, of_row);
      numbers_of_key(a_.call, at, of_key);
      rows.join(of_row, i == first);
      keys.join(of_key, i == first);
    }
    rows.join_lanes(lanes);
    keys.join_lanes(lanes);
    if (thread() % lanes != 0) return;
    const function::Interval seen = keep_of_tile(a_.call, first_, rows, keys);
    memory_.known[tile] = !seen.single() ? unknown : seen.low != 0 ? all_seen : nothing_seen;
  }

  /// A thread has a word of one row in each tile.
  REGARD_DEVICE void find_words() const {
    const i32 row = thread() % map_tile, word = thread() / map_tile;
    MaskPlace at = place(row, 0);
    const RowValues of_row = row_values(a_.call, at);
    at.kv += 32 * word, at.tk += 32 * word;
    FoundTiles found{0, 0};
#pragma unroll 1
    for (i32 tile = 0; tile < tiles_; ++tile, at.kv += map_tile, at.tk += map_tile) {
      const u8 known = memory_.known[tile];
      const u32 existing = low_bits(at.sk - at.kv);
      const u32 bits = known == unknown && existing != 0 ? bits_of(at, of_row) : known == all_seen ? ~0u : 0;
      memory_.words[row][2 * tile + word] = bits;
      found.add(tile, bits, existing);
    }
    found.join_wave();
    if (lane() == 0) memory_.of_waves[thread() / wave] = found;
  }
  /// The bits of 32 keys of a row.
  REGARD_DEVICE u32 bits_of(MaskPlace at, const RowValues& row) const {
    u32 bits = 0;
#pragma unroll 1
    for (i32 bit = 0; bit < 32; ++bit, ++at.kv, ++at.tk) bits |= u32{keep(a_.call, at, row)} << bit;
    return bits;
  }

  REGARD_DEVICE void store() const {
    constexpr i32 of_row = 2 * most_mask_tiles;
    u32* const words =
        a_.words + work_.batch * a_.batch + work_.head * a_.head + first_.q * a_.row + first_.kv / 32;
#pragma unroll 1
    for (i32 i = thread(); i < rows_ * of_row; i += mask_threads) {
      const i32 row = i / of_row, word = i % of_row;
      if (word < 2 * tiles_) words[row * a_.row + word] = memory_.words[row][word];
    }
    if (thread() >= tiles_) return;
    FoundTiles found{0, 0};
#pragma unroll
    for (const FoundTiles& of_wave : memory_.of_waves) found.join(of_wave);
    tile_map_of(a_, work_.batch, work_.head)
        .set(work_.row_tile, work_.first_tile + thread(), found.state(thread()));
  }

  const PortableBitsArguments& a_;
  const MaskWork& work_;
  MaskMemory& memory_;
  const MaskPlace first_;
  const i32 rows_, tiles_;  // which exist
};

}  // namespace regard

REGARD_KERNEL(regard::PortableBitsArguments, regard::mask_threads, 4) {
  using namespace regard;
  REGARD_DYNAMIC_MEMORY(dynamic, 16);
  const MaskWork work(arguments);
  const Sequence sequence = sequence_of<i64>(arguments, work.batch);
  if (i64{work.row_tile} * map_tile >= sequence.sq || i64{work.first_tile} * map_tile >= sequence.sk) return;
  MaskBlock(arguments, work, sequence, *reinterpret_cast<MaskMemory*>(dynamic)).run();
}
