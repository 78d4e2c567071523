// What a call writes into K and V: new tokens, rotated and quantised, each in its row of the cache.
#pragma once

#include <cstdint>
#include <vector>

#include "oracle/oracle.h"
#include "oracle/places.h"
#include "oracle/rope.h"
#include "problem/problem.h"

namespace regard::oracle {

/// A new token: row `row` of the sequence `batch` of K_NEW and V_NEW, or of all tokens where these are
/// packed.
struct NewToken {
  std::int64_t batch = 0, row = 0;
  std::int64_t position = 0;  ///< for the rotary embedding
  Place place;
};

/// The factor by which the stored numbers of some columns are multiplied.
struct StoredFactor {
  double value = 1;  ///< where the call writes it: the written one, if it is right
  double exact = 1, error = 0;
};

/// One row of K or V as it must be stored, of one head.
struct StoredRow {
  std::vector<double> value, error;   ///< as in Output; value times its factor is the number
  std::vector<StoredFactor> factors;  ///< one for the row, or one for `of_factor` columns each
  std::size_t of_factor = 0;          ///< 0: all

  /// 1 for columns after those that have factors.
  double factor_of(std::size_t column) const {
    const std::size_t i = of_factor == 0 ? 0 : column / of_factor;
    return i < factors.size() ? factors[i].value : 1;
  }
};

class NewTokens {
 public:
  NewTokens(const Problem&, const regard_arguments&);

  /// Token i of a sequence whose new tokens begin at row `before` of the cache.
  NewToken token(std::int64_t batch, std::int64_t i, std::int64_t before) const;
  /// A token of append with slots; if the row of its place is negative, it is not written.
  NewToken token_with_slot(std::int64_t token) const;

  /// What must be stored. `role`: K or V; `given_factor`: the row's factor, where the call does not write it.
  StoredRow exact(regard_role role, const NewToken&, std::int64_t head, double given_factor) const;
  /// The numbers that a kernel reads back: what it has stored, as far as that is right, else the exact
  /// numbers as they should have been rounded.
  std::vector<double> read_back(regard_role role, const NewToken&, std::int64_t head,
                                double given_factor) const;

 private:
  /// Chooses factor `number` of the row, for the columns [first, end).
  void choose_factor(regard_role role, const NewToken&, std::int64_t head, std::size_t number,
                     std::size_t first, std::size_t end, StoredRow&) const;

  const Problem& problem_;
  const regard_arguments& arguments_;
  const Places places_;
  const Rotation rotation_;
};

}  // namespace regard::oracle
