// Forward of few query rows, as when tokens are decoded: the rows of all query heads that share K and V, 16
// at a time.
//
// A block has a part of the keys, and each of its waves 16 or 32 keys of every tile. K and V, cached or not,
// go from memory straight to the registers in which they are multiplied, 8-bit numbers as fp16, while the
// keys before are multiplied. Waves wait for their own loads alone; at the end their sums are added.
#include "kernels/machine/pdl.h"
#include "kernels/portable/decode_keys.h"
#include "kernels/portable/decode_rows.h"
#include "kernels/portable/decode_store.h"
#include "kernels/portable/decode_work.h"
#include "kernels/portable/mask.h"

namespace regard {

class DecodeBlock {
 public:
  REGARD_DEVICE DecodeBlock(const PortableDecodeArguments& a, u8* memory)
      : a_(a),
        visible_{reinterpret_cast<BlockKeyRange*>(memory + layout.visible),
                 reinterpret_cast<RowKeyRange*>(memory)},
        sums_(memory + layout.range) {
    static_assert(sizeof(BlockKeyRange) <= layout.common && sizeof(RowKeyRange) * block_q == layout.visible);
  }

  REGARD_DEVICE void run(const DecodeWork& work) const {
    const Head head(a_, work.batch, work.kv_head * a_.pack_gqa);
    const Range32 rows = {work.first_row, static_cast<i32>(head.sequence.sq * a_.pack_gqa)};
    if (rows.empty()) return;
    const SeenTiles tiles(a_, sequence_of<i32>(a_, work.batch));
    const PackedRows packed(a_.pack_gqa);
    visible_.find(a_, SplitKeys{}, head.sequence, rows, packed, 0);
    const PortableScoreScale scale(head);
    add_tiles(head, packed, rows, tiles, tiles.of_part(work.part, a_.splits), scale);
    sync_block();
    store_rows(a_, head, work.first_row, work.part, sums_, scale);
  }

 private:
  REGARD_DEVICE void add_tiles(const Head& head, const PackedRows& packed, const Range32& rows,
                               const SeenTiles& seen, const Range32& tiles,
                               const PortableScoreScale& scale) const {
    const BlockKeyRange visible = *visible_.common;
    const i32 sk = static_cast<i32>(head.sequence.sk), first = part_of_wave() * wave_keys;
    const DecodeKeys keys(head);
    DecodeSoftmax softmax(scale.log2);
    DecodeOutput o = {};
    /// The wave's first key of the i-th tile; past the last one, where no row sees a key.
    const auto key_of = [&](i32 i) { return i < tiles.end ? seen.key(i) + first : sk; };
    i32 key = key_of(tiles.begin), next = key_of(tiles.begin + 1);
    DecodePlace place = keys.find(visible, key);
    bool whole = keys.are_whole(visible, key);
    StoredK k;
    StoredV v;
    load(k, keys.k, place, whole, keys.aligned());
    load(v, keys.v, place, whole, keys.aligned());
    place = keys.find(visible, next);  // of the tile after the one being loaded
    const DecodeRows q(head, packed, rows.begin, rows.end);
#pragma unroll 1
    for (i32 i = tiles.begin; i < tiles.end; ++i) {
      Scores s;
      multiply_keys(s, q.left, k);
      whole = keys.are_whole(visible, next);
      load(k, keys.k, place, whole, keys.aligned());
      q.unscale(s);
      if (changes_scores || scale.before != 1.0f) change_scores(s, {}, key, scale.before, a_.softcap);
      if (!visible.sees_all(key, key + wave_keys)) mask(s, visible_, {}, key, sk);
      Left p[groups];
      softmax.make_p(p, s, o);
      multiply_values(o, p, v);
      load(v, keys.v, place, whole, keys.aligned());
      key = next;
      next = key_of(i + 2);
      place = keys.find(visible, next);
    }
    sums_.put(softmax, o);
  }

  const PortableDecodeArguments& a_;
  RowKeyRanges visible_;
  WaveSums sums_;
};

}  // namespace regard

REGARD_KERNEL(regard::PortableDecodeArguments, regard::threads, regard::config::occupancy) {
  REGARD_DYNAMIC_MEMORY(dynamic, 16);
  regard::launch_dependent_grids();   // combine.cu
  regard::wait_on_dependent_grids();  // append.cu
  regard::DecodeBlock(arguments, dynamic).run(regard::DecodeWork(arguments, regard::block_index()));
}
