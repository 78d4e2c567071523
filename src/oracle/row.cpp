#include "oracle/row.h"

#include <algorithm>
#include <cmath>

#include "base/parallel_for.h"
#include "oracle/number.h"
#include "oracle/tolerance.h"

namespace regard::oracle {

namespace {

double sum_of_products(const double* a, const double* b, std::int64_t count) {
  double sums[8] = {};  // independent sums, so that the compiler can use vectors
  std::int64_t c = 0;
  for (; c + 8 <= count; c += 8)
    for (int lane = 0; lane < 8; ++lane) sums[lane] += a[c + lane] * b[c + lane];
  for (; c < count; ++c) sums[0] += a[c] * b[c];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

Dot dot(const double* a, const double* b, std::int64_t count) {
  Dot result;
  for (std::int64_t c = 0; c < count; c += looked_at) {
    result.value += sum_of_products(a + c, b + c, std::min(looked_at, count - c));
    result.peak = std::max(result.peak, std::fabs(result.value));
  }
  return result;
}

double norm(const double* a, std::int64_t count) {
  return std::sqrt(sum_of_products(a, a, count));
}

/// Of the products.
double root_of_squares(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t c = 0; c < count; ++c) sum += a[c] * b[c] * a[c] * b[c];
  return std::sqrt(sum);
}

double largest_norm(const Matrix& matrix) {
  double largest = 0;
  for (std::int64_t i = 0; i < matrix.rows; ++i)
    if (const double size = norm(matrix.row(i), matrix.columns); std::isfinite(size))
      largest = std::max(largest, size);
  return largest;
}

namespace {

/// Applies functions to the visible scores of a row, and finds the largest.
double apply_functions(const Inputs& inputs, std::int64_t batch, std::int64_t head, std::int64_t i,
                       std::vector<double>& score, const std::vector<bool>& visible, Row& row) {
  const Problem& problem = inputs.problem();
  PlaceFunctions functions(inputs.functions());
  const double error = safety * Precision(problem).scores(row, problem.d).of_each();
  double largest = -infinity;
  for (std::size_t j = 0; j < score.size(); ++j) {
    if (!visible[j]) continue;
    const FunctionPlace place = inputs.place(batch, head, i, static_cast<std::int64_t>(j));
    const function::Value scaled{.real = score[j], .bound = error};
    row.scaled[j] = scaled;
    function::Value value = functions.score(scaled, place, row.sure);
    if (!functions.keeps(scaled, place, row.sure)) value = {.real = -infinity};
    if (problem.pass == Pass::bwd && inputs.functions().has_score()) {
      const function::Value slope = functions.slope(scaled, place, row.sure);
      row.slope[j] = slope.real;
      row.slope_error[j] = certain(slope.bound);
    }
    if (value.real == -infinity) --row.seen;
    score[j] = value.real;
    row.score_error[j] = value.bound;
    largest = std::isnan(score[j]) || std::isnan(largest) ? nan : std::max(largest, score[j]);
  }
  return largest;
}

}  // namespace

void compute_row(const Inputs& inputs, std::int64_t batch, std::int64_t head, std::int64_t i, const double* q,
                 const Matrix& k, double largest_k, Row& row) {
  const Problem& problem = inputs.problem();
  const double scale = scale_of(problem), cap = problem.softcap, sink = inputs.sink(head);
  const auto keys = static_cast<std::size_t>(k.rows);
  row.weight.assign(keys, 0);
  row.log_weight.assign(keys, -infinity);
  row.keep.assign(keys, 1);
  row.slope.assign(keys, 1);
  row.slope_error.assign(keys, 0);
  row.score_error.assign(keys, 0);
  row.scaled.assign(inputs.functions().any() ? keys : 0, {});
  row.sure = true;
  row.function_error = 0;
  std::vector<bool> visible(keys);
  row.largest_logit = std::fabs(scale) * norm(q, k.columns) * largest_k;
  row.logit_per_lost =
      std::fabs(scale) * std::sqrt(static_cast<double>(k.columns)) * (norm(q, k.columns) + largest_k);

  const philox::Random random = inputs.random(batch, head);
  row.largest_score = row.rotated = row.scaled_keys = 0;
  const std::int64_t first = first_rotated(problem),
                     scaled = problem.descale == Descale::columns ? problem.dv : 0;
  row.seen = 0;

  std::vector<double>& score = row.log_weight;
  row.row_max = -infinity;
  for (std::size_t j = 0; j < keys; ++j) {
    const auto column = static_cast<std::int64_t>(j);
    if (!inputs.visible(batch, head, i, column)) continue;
    const Dot product = dot(q, k.row(column), k.columns);
    score[j] = scale * product.value;
    row.largest_score = std::max(row.largest_score, std::fabs(scale) * product.peak);
    const double* const key = k.row(column);
    row.rotated =
        std::max(row.rotated, std::fabs(scale) * root_of_squares(q + first, key + first, problem.rotary));
    row.scaled_keys = std::max(row.scaled_keys, std::fabs(scale) * root_of_squares(q, key, scaled));
    ++row.seen;
    visible[j] = true;
    if (cap > 0) {
      const double t = std::tanh(score[j] / cap);
      score[j] = cap * t;
      row.slope[j] = 1 - t * t;
    }
    score[j] += inputs.bias(batch, head, i, column);
    row.row_max = std::isnan(score[j]) ? nan : std::max(row.row_max, score[j]);
    if (problem.dropout > 0) row.keep[j] = inputs.kept(random, i, column) ? inputs.dropout_scale() : 0;
  }

  if (inputs.functions().any()) row.row_max = apply_functions(inputs, batch, head, i, score, visible, row);
  const double largest = std::isnan(row.row_max) ? nan : std::max(sink, row.row_max);

  if (largest == -infinity) {  // no key and no sink: there is nothing to normalise
    row.lse = -infinity;
    row.largest_weight = row.sink_weight = 0;
    return;
  }
  double sum = std::exp(sink - largest);
  for (const double s : score) sum += std::exp(s - largest);
  row.lse = largest + std::log(sum);
  if (std::isnan(row.lse)) row.row_max = nan;
  // Not exp(score - lse): at scores of 1e20, lse has no digits left for the logarithm of the sum.
  row.sink_weight = std::exp(sink - largest) / sum;
  for (std::size_t j = 0; j < keys; ++j) {
    row.weight[j] = std::exp(score[j] - largest) / sum;
    score[j] -= row.lse;
  }
  if (inputs.functions().has_score())
    for (std::size_t j = 0; j < keys; ++j)
      if (row.weight[j] > 1e-10) row.function_error = std::max(row.function_error, row.score_error[j]);
  row.largest_weight = keys == 0 ? 0 : std::ranges::max(row.weight);
}

std::vector<std::int64_t> spread(std::int64_t count, std::int64_t limit) {
  std::vector<std::int64_t> chosen;
  const std::int64_t n = limit > 0 ? std::min(count, limit) : count;
  for (std::int64_t i = 0; i < n; ++i) chosen.push_back(n == 1 ? count - 1 : i * (count - 1) / (n - 1));
  return chosen;
}

void for_each_head(const Inputs& inputs, std::int64_t heads, std::int64_t limit, int threads,
                   bool (*counts)(const Sequence&),
                   const std::function<void(std::int64_t, std::int64_t)>& body) {
  std::vector<std::int64_t> all;
  const bool none = inputs.all_equal() && !counts(inputs.sequence(0));
  for (std::int64_t batch = 0; batch < inputs.problem().b && !none; ++batch)
    for (std::int64_t head = 0; head < heads && counts(inputs.sequence(batch)); ++head)
      all.push_back(batch * heads + head);
  std::vector<std::int64_t> batch_heads;
  for (const std::int64_t i : spread(static_cast<std::int64_t>(all.size()), limit))
    batch_heads.push_back(all[static_cast<std::size_t>(i)]);
  // Plain threads, as a forked child may verify as well.
  parallel_for(batch_heads.size(), static_cast<std::size_t>(std::max(threads, 1)),
               [&](std::size_t i) { body(batch_heads[i] / heads, batch_heads[i] % heads); });
}

}  // namespace regard::oracle
