#include <cmath>

#include "oracle/passes.h"
#include "oracle/row.h"
#include "oracle/sums.h"
#include "oracle/tolerance.h"
#include "oracle/writer.h"

namespace regard::oracle {

Outputs forward(const Inputs& inputs, const Options& options) {
  const Problem& problem = inputs.problem();
  const Precision precision(problem);
  Outputs outputs;
  const Writer write_o(problem, REGARD_O, outputs), write_lse(problem, REGARD_LSE, outputs),
      write_mask(problem, REGARD_DROPOUT_MASK, outputs), write_row_max(problem, REGARD_ROW_MAX, outputs);

  const auto has_queries = [](const Sequence& s) { return s.sq > 0; };
  for_each_head(inputs, problem.hq, 0, options.threads, has_queries, [&](std::int64_t b, std::int64_t h) {
    const Sequence& sequence = inputs.sequence(b);
    const Matrix q = inputs.matrix(REGARD_Q, b, h);
    const Matrix k = inputs.matrix(REGARD_K, b, inputs.kv_head(h));
    const Matrix v = inputs.matrix(REGARD_V, b, inputs.kv_head(h));
    const double largest_k = largest_norm(k);
    Sums o(1, problem.dv, precision, Common::no);
    o.expect(v);
    const philox::Random random = inputs.random(b, h);
    Row row;
    for (const std::int64_t i : spread(sequence.sq, options.max_rows)) {
      compute_row(inputs, b, h, i, q.row(i), k, largest_k, row);
      const RowError of_products = precision.scores(row, problem.d);
      const RowError relative = precision.row(row, of_products);
      o.clear();
      for (std::int64_t j = 0; j < sequence.sk; ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (write_mask) write_mask.set(b, h, sequence.first_q + i, j, inputs.kept(random, i, j), 0);
        if (row.weight[at] * row.keep[at] == 0) continue;
        o.add(0, weight_of(row, at, precision, relative), v.row(j));
      }
      const auto error = [&row](double expected) { return row.sure ? expected : Output::any_result; };
      for (std::int64_t c = 0; c < problem.dv; ++c)
        write_o.set(b, h, sequence.first_q + i, c, o.value.row(0)[c], error(o.error(0, c)));
      write_lse.set(b, h, sequence.first_q + i, 0, row.lse, error(precision.lse(row, relative)));
      write_row_max.set(b, h, sequence.first_q + i, 0, row.row_max,
                        error(precision.row_max(row, of_products)));
    }
  });
  if (writes_cache(problem)) append(inputs, outputs);
  return outputs;
}

}  // namespace regard::oracle
