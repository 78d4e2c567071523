// The oracle: attention in fp64, written for clarity, every feature, forward and backward
// (docs/semantics.md). It reads the same tensors as a kernel and returns doubles; everything else here is
// judged against it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "problem/problem.h"
#include "problem/tensors.h"
#include "regard/regard.h"

namespace regard::oracle {

/// One output, in row-major order of the role's logical shape (tensor_spec).
struct Output {
  /// Of a cache, which a call writes in part: the flat index of each element that it must write. `value` and
  /// `error` have these alone. All other elements stay as they are.
  std::optional<std::vector<std::int64_t>> written;
  /// The exact result: NaN where the inputs make it so, and where there is no result.
  std::vector<double> value;
  /// The expected error of a well-made kernel of these types, before the output itself is rounded
  /// (docs/tolerances.md); `no_result` where there is none.
  std::vector<double> error;

  static constexpr double no_result = -1;
  /// Instead of an error: rounding decides what a function does, so that any result is right.
  static constexpr double any_result = -3;
  static constexpr double copied = -2;  ///< instead of an error: the element is a copy of an input
  /// False where a kernel must not write the element (rows and columns past a logical length) and where
  /// Options exclude it: `compare` skips it.
  bool has_result(std::size_t i) const { return error[i] != no_result; }
};
using Outputs = std::map<regard_role, Output>;

struct Options {
  int threads = 1;
  /// Compute at most this many query rows per head, spread evenly; the others have no result. 0 means all.
  /// Backward then gives only grad_q, as the other gradients are sums over all rows.
  std::int64_t max_rows = 0;
  /// Backward only: compute at most this many (batch, K/V head) pairs, of those that have queries and keys,
  /// spread evenly; the others have no result, and gradients that are sums over heads are omitted. 0 means
  /// all.
  std::int64_t max_heads = 0;
};

/// Forward: o, lse, dropout_mask, and as append does: the rows of k and v, and of descale_k and descale_v,
/// that new tokens are written to. These are read back for everything that follows from them, as far as they
/// are right: call it after the kernel. Merge: o and lse; with `accumulate` they are inputs, so call it
/// before. Backward: grad_q, grad_k, grad_v and, when requested, grad_bias, grad_sink; it takes D from the
/// same O that the kernel reads, and computes the weights and LSE itself from q and k.
Result<Outputs> run(const Problem&, const regard_arguments&, const Options& = {});

struct Comparison {
  regard_role role;
  double max_absolute = 0, max_relative = 0;  ///< relative: where the reference is at least its rms
  double worst = 0;                           ///< largest error as a part of its tolerance; wrong above 1
  double tolerance = 0;                       ///< the tolerance at the largest absolute error
  std::int64_t compared = 0, wrong = 0;
  std::int64_t first_wrong = -1;  ///< flat index in the logical shape
  double first_expected = 0, first_actual = 0;
  bool ok = false;
};

/// Each output of `arguments` against the oracle's, by the tolerances of tolerance.h.
std::vector<Comparison> compare(const Problem&, const regard_arguments&, const Outputs&);

}  // namespace regard::oracle
