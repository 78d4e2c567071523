// Which parts the keys of a sequence have on a GPU, and which keys a part has.
#pragma once

#include "kernels/range.h"
#include "kernels/split_keys.h"

namespace regard {

/// How many parts the keys of a sequence have, whether it sees them or not. Others are neither written nor
/// read.
template <class Integer>
REGARD_INLINE Integer parts_of_sequence(const SplitKeys& parts, Integer keys) {
  const Integer most = static_cast<Integer>(parts.splits), of_part = static_cast<Integer>(parts.split_keys);
  return of_part == 0 ? most : smaller<Integer>(larger<Integer>(keys + of_part - 1, of_part) / of_part, most);
}

/// The keys of a part, in whole tiles; `seen`: what the rows of the block see. May end past them.
template <class Integer>
REGARD_INLINE BasicRange<Integer> keys_of_part(const SplitKeys& parts, Integer number,
                                               const BasicRange<Integer>& seen, Integer block_k) {
  Integer first = 0, of_part = static_cast<Integer>(parts.split_keys);
  if (of_part == 0) {
    const Integer splits = static_cast<Integer>(parts.splits);
    first = seen.begin / block_k;
    const Integer tiles = larger<Integer>((seen.end + block_k - 1) / block_k - first, 0);
    of_part = (tiles + splits - 1) / splits * block_k;
    first *= block_k;
  }
  first += number * of_part;
  return {first, first + of_part};
}

}  // namespace regard
