// Which blocks run on one die, on a GPU of several dies that have an L2 cache each: neighbours, because these
// read the same K and V.
#pragma once

#include "kernels/arguments.h"
#include "kernels/inline.h"

namespace regard {

/// The hardware starts blocks in the order of their numbers, on one die after the other. Returns which of
/// `count` pieces of work block number `block` does; each die has consecutive ones.
REGARD_INLINE u32 in_die_order(u32 block, u32 count, u32 dies) {
  const u32 die = block % dies, longer = count % dies;  // so many dies have one block more
  return die * (count / dies) + (die < longer ? die : longer) + block / dies;
}

/// Whether dies then have the same amount of work, if each of `b * heads` pairs is as many pieces. Under a
/// mask these differ, and sequences may have different lengths: then only whole pairs or heads are.
REGARD_INLINE bool dies_are_even(const Arguments& a, u32 heads, u32 dies) {
  const bool alike = a.offsets_k == nullptr && a.lengths_k == nullptr;
  return heads % dies == 0 || (alike && (a.positional == 0 || heads * static_cast<u32>(a.b) % dies == 0));
}

}  // namespace regard
