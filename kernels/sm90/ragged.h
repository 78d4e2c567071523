// Whether sequences end at their own lengths, so that tiles are loaded and stored through ragged maps
// (plan/kernels/sm90_boxes.cpp).
#pragma once

#include "kernels/numbers.h"

namespace regard {

/// For sequences that do not fill their tensors, or are packed in them, or lie in a KV cache; not in
/// clusters.
REGARD_INLINE bool ragged(const Arguments& a) {
  return config::cluster <= 1 && (config::paged || a.offsets_q != nullptr || a.lengths_q != nullptr ||
                                  a.lengths_k != nullptr || a.cache.present);
}

}  // namespace regard
