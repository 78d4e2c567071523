// Factors of 8-bit K and V that differ from row to row.
#pragma once

#include "kernels/sequence.h"

namespace regard {

/// Whether each token or page has its own factors of K and V, which are indexed like K.
REGARD_INLINE bool has_row_factors(const Arguments& a) {
  const auto kind = static_cast<Descale>(a.descale);
  return kind == Descale::token || kind == Descale::page;
}

}  // namespace regard
