// One query row: its scores, weights and LSE. Shared by forward and backward.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "oracle/inputs.h"

namespace regard::oracle {

/// A running sum is inspected every so many terms: how large it gets on the way determines its rounding
/// errors.
constexpr std::int64_t looked_at = 32;

struct Row {
  std::vector<double> weight;      ///< P before dropout; 0 where the key is not visible
  std::vector<double> log_weight;  ///< score - LSE, -infinity where the key is not visible
  std::vector<double> keep;        ///< the factor of the weight in dropout: 0 or 1 / keep probability
  std::vector<double> slope;       ///< derivative of the soft cap or of score=: 1 without one
  std::vector<double> slope_error, score_error;  ///< absolute, of score=: the expected and the largest error
  std::vector<function::Value> scaled;           ///< with functions: the score that they are given
  bool sure = true;  ///< false if rounding can change what a function does with one of the scores
  double lse = 0;
  double row_max = 0;  ///< the largest score of a visible key, -infinity without one
  double largest_weight = 0;
  double sink_weight = 0;  ///< the learned sink's part of the softmax
  std::int64_t seen = 0;   ///< visible keys
  // For the tolerance:
  double function_error = 0;  ///< with score=: the largest score_error of a weight above 1e-10
  double largest_logit = 0;   ///< bound of |scale * q k|
  double largest_score = 0;   ///< the largest running sum of scale * q k of a visible key
  double rotated = 0;  ///< the largest scale * root of the sum of (q k)^2, over numbers of q that are rotated
  double scaled_keys = 0;     ///< the same over numbers of k whose columns have factors
  double logit_per_lost = 0;  ///< bound of a score's change when numbers of Q and K change by 1
};

/// Computes row i of the sequence for one query head. `q` has d numbers; `largest_k` is the largest norm of a
/// key.
void compute_row(const Inputs&, std::int64_t batch, std::int64_t head, std::int64_t i, const double* q,
                 const Matrix& k, double largest_k, Row& row);

struct Dot {
  double value = 0;
  double peak = 0;  ///< the largest absolute value that the sum reaches on the way
};
Dot dot(const double* a, const double* b, std::int64_t count);
double norm(const double* a, std::int64_t count);
/// Of the rows whose numbers are finite: others are hidden, or the result shows them.
double largest_norm(const Matrix&);

/// At most `limit` of `count` indices, evenly spread, including the first and the last; all when limit is 0.
std::vector<std::int64_t> spread(std::int64_t count, std::int64_t limit);

/// Calls body(batch, head) for all pairs whose sequence `counts`, or for at most `limit` of them (0: for
/// all), on several threads. Sequences that do not count take no time per head: there may be 10^9 of them.
void for_each_head(const Inputs&, std::int64_t heads, std::int64_t limit, int threads,
                   bool (*counts)(const Sequence&),
                   const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace regard::oracle
