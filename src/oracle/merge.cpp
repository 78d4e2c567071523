#include <algorithm>
#include <cmath>
#include <vector>

#include "oracle/passes.h"
#include "oracle/row.h"
#include "oracle/sums.h"
#include "oracle/tolerance.h"
#include "oracle/writer.h"

namespace regard::oracle {
namespace {

/// The weight of each part, with one that is in O and LSE already as the last.
Row weights_of(const std::vector<double>& lses) {
  Row row;
  row.seen = static_cast<std::int64_t>(lses.size());
  double largest = -infinity, sum = 0;
  for (const double lse : lses) largest = std::isnan(lse) ? nan : std::max(largest, lse);
  row.lse = largest;
  row.weight.assign(lses.size(), 0);
  row.log_weight.assign(lses.size(), -infinity);
  if (largest == -infinity) return row;  // all parts are empty
  for (const double lse : lses) sum += std::exp(lse - largest);
  row.lse += std::log(sum);
  for (std::size_t part = 0; part < lses.size(); ++part) {
    row.weight[part] = std::exp(lses[part] - largest) / sum;
    row.log_weight[part] = lses[part] - row.lse;
  }
  row.largest_weight = std::ranges::max(row.weight);
  return row;
}

}  // namespace

Outputs merge(const Inputs& inputs) {
  const Problem& problem = inputs.problem();
  const Precision precision(problem);
  Outputs outputs;
  const Writer write_o(problem, REGARD_O, outputs), write_lse(problem, REGARD_LSE, outputs);
  const auto parts = static_cast<std::size_t>(problem.parts);
  Sums o(1, problem.dv, precision, Common::no);
  std::vector<double> lses(parts + (problem.accumulate ? 1 : 0)),
      values(static_cast<std::size_t>(problem.dv));

  for (std::int64_t b = 0; b < problem.b; ++b) {
    const Sequence& sequence = inputs.sequence(b);
    for (std::int64_t i = 0; i < sequence.sq; ++i) {
      const std::int64_t row = sequence.first_q + i, token = problem.varlen ? row : b * problem.sq + i;
      for (std::int64_t h = 0; h < problem.hq; ++h) {
        for (std::size_t part = 0; part < parts; ++part)
          lses[part] = inputs.partial_lse(static_cast<std::int64_t>(part), h, token);
        if (problem.accumulate) lses[parts] = inputs.own_lse(b, h, row);
        const Row weights = weights_of(lses);
        const RowError error = precision.row(weights, {});
        o.clear();
        for (std::size_t part = 0; part < lses.size(); ++part) {
          const double weight = weights.weight[part], log_weight = weights.log_weight[part];
          if (weight == 0) continue;
          for (std::size_t c = 0; c < values.size(); ++c) {
            const auto column = static_cast<std::int64_t>(c);
            values[c] = part < parts ? inputs.partial_o(static_cast<std::int64_t>(part), h, token, column)
                                     : inputs.own_o(b, h, row, column);
          }
          o.add(0,
                {weight, precision.weight(weight, log_weight, error.of_each()),
                 precision.relative(log_weight, error.shared), 0, 0},
                values.data());
        }
        for (std::int64_t c = 0; c < problem.dv; ++c)
          write_o.set(b, h, row, c, o.value.row(0)[c], o.error(0, c));
        write_lse.set(b, h, row, 0, weights.lse, precision.lse(weights, error));
      }
    }
  }
  return outputs;
}

}  // namespace regard::oracle
