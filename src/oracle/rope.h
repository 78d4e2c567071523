// The rotary embedding of keys and queries, from tables of cosines and sines.
#pragma once

#include <cstdint>

#include "problem/problem.h"
#include "regard/regard.h"

namespace regard::oracle {

class Rotation {
 public:
  Rotation(const Problem&, const regard_arguments&);

  /// Rotates the first `rotary` numbers of x in place. `size`, unless null, becomes that of the two products
  /// of which each number is the sum.
  void rotate(std::int64_t position, double* x, double* size = nullptr) const;

 private:
  double read(regard_role, std::int64_t row, std::int64_t column) const;

  const Problem& problem_;
  const regard_arguments& arguments_;
  std::int64_t rows_ = 0;
};

}  // namespace regard::oracle
