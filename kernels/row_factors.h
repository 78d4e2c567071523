// Factors of 8-bit K and V that differ from row to row.
#pragma once

#include "kernels/factor_columns.h"
#include "kernels/sequence.h"

namespace regard {

/// Whether each 128 neighbouring columns of a row of a latent K have their own factor; the columns after V's
/// have none, and are in Q's type.
REGARD_INLINE bool has_column_factors(const Arguments& a) {
  return static_cast<Descale>(a.descale) == Descale::columns;
}

/// Whether each token or page has its own factors of K and V, which are indexed like K.
REGARD_INLINE bool has_row_factors(const Arguments& a) {
  const auto kind = static_cast<Descale>(a.descale);
  return kind == Descale::token || kind == Descale::page || kind == Descale::columns;
}

/// Whether the factors of new tokens are computed and written along with them.
REGARD_INLINE bool has_factors_of_tokens(const Arguments& a) {
  return has_column_factors(a) || static_cast<Descale>(a.descale) == Descale::token;
}

/// The type of the columns of a latent K after V's, as a number of enum DType.
REGARD_INLINE i32 type_after_v(const Arguments& a) {
  return has_column_factors(a) ? a.dtype : a.kv;
}

}  // namespace regard
