// Where the rows of K and V are in memory: in tensors of their own, in a dense cache, or in pages. The only
// file here that knows about page tables, slots and the order of elements in a page.
#pragma once

#include <cstdint>

#include "problem/problem.h"
#include "regard/regard.h"

namespace regard::oracle {

/// A row of K and V: the first index of both tensors (a page or a sequence; 0 where sequences are packed),
/// and the row in it.
struct Place {
  std::int64_t batch = 0, row = 0;
};

class Places {
 public:
  Places(const Problem& problem, const regard_arguments& arguments)
      : problem_(problem), arguments_(arguments) {}

  /// Row `row` of a sequence, with its left padding; of packed sequences it counts over all tokens.
  Place of_row(std::int64_t batch, std::int64_t row) const;
  /// Where append writes a token that has a slot. A negative row: nowhere.
  Place of_slot(std::int64_t token) const;

 private:
  std::int64_t page(std::int64_t batch, std::int64_t block) const;
  std::int64_t integer(regard_role, std::int64_t index) const;

  const Problem& problem_;
  const regard_arguments& arguments_;
};

/// The tensor that has the keys or values of `role`: the values of a latent K are its first columns.
inline regard_role side_of(const Problem& problem, regard_role role) {
  return role == REGARD_V && !problem.latent ? REGARD_V : REGARD_K;
}

/// The number of an element of K or V, from strides of memory or of row-major order.
class KvIndex {
 public:
  KvIndex(const Problem&, regard_role, int rank, const std::int64_t* strides);
  std::int64_t at(const Place& place, std::int64_t head, std::int64_t column) const {
    const std::int64_t start = place.batch * batch_ + head * head_;
    if (together_ == 0) return start + place.row * row_ + column;
    // Vectorized pages keep `together_` columns of K, or rows of V, side by side.
    const std::int64_t moving = of_columns_ ? column : place.row, other = of_columns_ ? place.row : column;
    return start + moving / together_ * row_ + other * together_ + moving % together_;
  }

 private:
  std::int64_t batch_, head_, row_, together_ = 0;
  bool of_columns_ = false;
};

/// The numbers of K or of V, wherever their columns are.
class StoredKeys {
 public:
  StoredKeys(const Problem&, const regard_arguments&, regard_role);
  double at(const Place& place, std::int64_t head, std::int64_t column) const;
  /// The type in which a column is stored.
  regard_dtype dtype(std::int64_t column) const { return column < columns_ ? tensor_.dtype : rest_.dtype; }

  const regard_role side;  ///< K or V

 private:
  const regard_tensor &tensor_, &rest_;  // of the columns from `columns_` on
  KvIndex index_, index_of_rest_;
  std::int64_t columns_;
};

}  // namespace regard::oracle
