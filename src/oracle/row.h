// One query row: its scores, weights and LSE. Forward and backward share it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "oracle/inputs.h"

namespace regard::oracle {

struct Row {
  std::vector<double> weight;      ///< P before dropout; 0 where the key is not visible
  std::vector<double> log_weight;  ///< score - LSE, -infinity where the key is not visible
  std::vector<double> keep;        ///< what dropout multiplies the weight with: 0 or 1 / keep probability
  std::vector<double> slope;       ///< derivative of the soft cap: 1 without one
  double lse = 0;
  double largest_weight = 0;
  double sink_weight = 0;    ///< the learned sink's part of the softmax
  double largest_logit = 0;  ///< bound of |scale * q k| of the row, for the tolerance
  double logit_per_lost =
      0;  ///< bound of what changes of 1 in the numbers of Q and K do to a score, likewise
};

/// Row i of the sequence for one query head. `q` has d numbers; `largest_k` is the largest norm of a key.
void compute_row(const Inputs&, std::int64_t batch, std::int64_t head, std::int64_t i, const double* q,
                 const Matrix& k, double largest_k, Row& row);

double dot(const double* a, const double* b, std::int64_t count);
double norm(const double* a, std::int64_t count);
double largest_norm(const Matrix&);

/// At most `limit` of `count` things, evenly spread, the first and the last among them; all when limit is 0.
std::vector<std::int64_t> spread(std::int64_t count, std::int64_t limit);

/// Calls body(batch, head) for all pairs, or for at most `limit` of those that have queries and keys (0: for
/// all), on several threads.
void for_each_head(const Inputs&, std::int64_t heads, std::int64_t limit, int threads,
                   const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace regard::oracle
