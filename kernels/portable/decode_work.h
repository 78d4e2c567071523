// Which rows and which keys a block of decode.cu has.
#pragma once

#include "kernels/portable/decode_schedule.h"
#include "kernels/portable/score_tile.h"
#include "kernels/window.h"

namespace regard {

/// The tiles of keys that some row of a sequence sees: the first `sinks`, and those of [begin, end).
struct SeenTiles {
  i32 sinks, begin, end;

  REGARD_DEVICE SeenTiles(const Arguments& a, const Sequence32& sequence) {
    const Window32 window(a, sequence);
    const Range32 first = window.keys_of(0), last = window.keys_of(larger(sequence.sq - 1, 0));
    end = tiles_before(last.end);
    begin = smaller(larger(first.begin, 0) / block_k, end);
    const bool has_sinks = config::mask != Mask::none && window.left >= 0;
    sinks = has_sinks ? smaller(tiles_before(smaller(window.sinks, last.end)), begin) : 0;
  }
  REGARD_DEVICE i32 count() const { return sinks + end - begin; }
  /// The tiles of one of `parts` parts.
  REGARD_DEVICE Range32 of_part(i64 part, i64 parts) const {
    return {static_cast<i32>(count() * part / parts), static_cast<i32>(count() * (part + 1) / parts)};
  }
  /// The first key of the i-th tile.
  REGARD_DEVICE i32 key(i32 i) const { return (i < sinks ? i : i - sinks + begin) * block_k; }

 private:
  REGARD_DEVICE static i32 tiles_before(i32 key) { return (larger(key, 0) + block_k - 1) / block_k; }
};

/// The order of blocks: first those of the rows that share keys, then the parts of the keys, then the K/V
/// heads, then the sequences.
struct DecodeWork {
  i32 batch, kv_head, first_row, part;

  REGARD_DEVICE DecodeWork(const PortableDecodeArguments& a, u32 block) {
    const u32 row_blocks = (static_cast<u32>(a.pack_gqa) * static_cast<u32>(a.sq) + block_q - 1) / block_q,
              heads = static_cast<u32>(a.hk), parts = static_cast<u32>(a.splits);
    first_row = static_cast<i32>(block % row_blocks * block_q);
    block /= row_blocks;
    part = static_cast<i32>(block % parts);
    block /= parts;
    kv_head = static_cast<i32>(block % heads);
    batch = static_cast<i32>(block / heads);
  }
};

}  // namespace regard
