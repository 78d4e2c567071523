#include <vector>

#include "oracle/new_tokens.h"
#include "oracle/passes.h"

namespace regard::oracle {
namespace {

std::vector<std::int64_t> row_major_strides(const Dimensions& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t next = 1;
  for (std::size_t i = shape.size(); i-- > 0; next *= shape[i]) strides[i] = next;
  return strides;
}

void add(Output& output, std::int64_t flat, double value, double error) {
  output.written->push_back(flat);
  output.value.push_back(value);
  output.error.push_back(error);
}

}  // namespace

void append(const Inputs& inputs, Outputs& outputs) {
  const Problem& problem = inputs.problem();
  const std::vector<NewToken> tokens = inputs.new_tokens();
  for (const regard_role role : {REGARD_K, REGARD_V, REGARD_K_ROPE}) {
    const TensorSpec spec = tensor_spec(problem, role);
    if (spec.use == REGARD_UNUSED) continue;
    const std::vector<std::int64_t> strides = row_major_strides(spec.shape);
    const KvIndex index(problem, role, static_cast<int>(strides.size()), strides.data());
    const regard_role side = side_of(problem, role);
    const std::int64_t first = role == REGARD_K_ROPE ? problem.dv : 0;
    const std::int64_t columns = role == REGARD_K_ROPE ? problem.d - problem.dv
                                 : role == REGARD_K    ? columns_of_k(problem)
                                                       : problem.dv;
    const regard_role factor_role = side == REGARD_K ? REGARD_DESCALE_K : REGARD_DESCALE_V;
    const bool factors = role == side && is_written(tensor_use(problem, factor_role));
    const std::int64_t rows = problem.paged > 0 ? problem.paged : problem.sk;
    outputs[role].written.emplace();
    if (factors) outputs[factor_role].written.emplace();
    for (const NewToken& token : tokens) {
      for (std::int64_t head = 0; head < problem.hk; ++head) {
        const StoredRow row = inputs.stored(side, token, head);
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto at = static_cast<std::size_t>(first + c);
          add(outputs[role], index.at(token.place, head, c), row.value[at], row.error[at]);
        }
        if (!factors) continue;
        const std::int64_t row_of_head = (token.place.batch * rows + token.place.row) * problem.hk + head,
                           count = std::ssize(row.factors);
        for (std::int64_t i = 0; i < count; ++i) {
          const StoredFactor& factor = row.factors[static_cast<std::size_t>(i)];
          add(outputs[factor_role], row_of_head * count + i, factor.exact, factor.error);
        }
      }
    }
  }
}

}  // namespace regard::oracle
