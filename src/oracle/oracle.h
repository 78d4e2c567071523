// The oracle: attention in fp64, written for clarity, every feature, forward and backward (DESIGN section 4).
// It reads the same tensors a kernel reads and answers in doubles; everything else here is judged against it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "problem/problem.h"
#include "problem/tensors.h"
#include "regard/regard.h"

namespace regard::oracle {

/// Values in row-major order of the role's logical shape (tensor_spec). Elements that the problem leaves
/// untouched (rows past a logical length) are NaN and are skipped by `compare`.
using Outputs = std::map<regard_role, std::vector<double>>;

struct Options {
  int threads = 1;
  /// Forward only: compute at most this many query rows per (batch, head), spread evenly; the rest is NaN. 0
  /// = all.
  std::int64_t max_rows = 0;
};

/// Forward: o, lse, dropout_mask. Backward: grad_q, grad_k, grad_v and, when asked, grad_bias, grad_sink; it
/// computes O and LSE itself from q, k, v, so that it does not inherit a forward kernel's rounding.
Result<Outputs> run(const Problem&, const regard_arguments&, const Options& = {});

struct Comparison {
  regard_role role;
  double max_absolute = 0, max_relative = 0, tolerance_absolute = 0, tolerance_relative = 0;
  std::int64_t compared = 0, wrong = 0;
  std::int64_t first_wrong = -1;  ///< flat index in the logical shape
  bool ok = false;
};

/// Each output of `arguments` against the oracle's, by the tolerances of tolerance.h.
std::vector<Comparison> compare(const Problem&, const regard_arguments&, const Outputs&);

}  // namespace regard::oracle
