// Whether sequences end where their own lengths say, so that tiles come and go by ragged maps
// (plan/kernels/sm90_boxes.cpp).
#pragma once

#include "kernels/numbers.h"

namespace regard {

/// Sequences that do not fill their tensors, or stand packed in them; not in clusters.
REGARD_INLINE bool ragged(const Arguments& a) {
  return key::cluster <= 1 && (a.offsets_q != nullptr || a.lengths_q != nullptr || a.lengths_k != nullptr);
}

}  // namespace regard
