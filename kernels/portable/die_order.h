// Which work the blocks on a die do, on a GPU of several dies with an L2 cache each: neighbouring pieces,
// because these read the same K and V.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard {

/// The hardware starts blocks in the order of their numbers, on one die after the other. Returns which of
/// `count` pieces of work block number `block` does; each die has consecutive ones.
REGARD_INLINE u32 in_die_order(u32 block, u32 count, u32 dies) {
  const u32 die = block % dies, longer = count % dies;  // this many dies have one block more
  return die * (count / dies) + (die < longer ? die : longer) + block / dies;
}

/// Whether all dies then have the same amount of work, where each of `b * heads` pairs is the same number of
/// pieces. Under a mask pieces differ, so that each die needs as many pairs; if sequences have different
/// lengths, pairs differ too, and each die needs as many heads.
REGARD_INLINE bool dies_are_even(const Arguments& a, u32 heads, u32 dies) {
  const bool alike = a.offsets_k == nullptr && a.lengths_k == nullptr && a.cache.page_offsets == nullptr;
  return heads % dies == 0 || (alike && (a.positional == 0 || heads * static_cast<u32>(a.b) % dies == 0));
}

}  // namespace regard
