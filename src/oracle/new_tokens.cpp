#include "oracle/new_tokens.h"

#include <algorithm>
#include <cmath>

#include "oracle/number.h"
#include "oracle/tolerance.h"
#include "problem/tensors.h"

namespace regard::oracle {
namespace {

/// fp32 roundings of a number that is the sum of two products, and of one that is divided by a factor.
constexpr double roundings = 3 * 0x1p-24;

std::int64_t element(const regard_tensor& tensor, std::int64_t batch, std::int64_t row, std::int64_t head,
                     std::int64_t column) {
  if (tensor.rank == 4)
    return batch * tensor.strides[0] + row * tensor.strides[1] + head * tensor.strides[2] + column;
  return row * tensor.strides[0] + head * tensor.strides[1] + column;
}

/// The number to which the largest one of a row is scaled.
double largest_stored(regard_dtype dtype) {
  return dtype == REGARD_INT8 ? 127 : format(dtype).largest();
}

}  // namespace

NewTokens::NewTokens(const Problem& problem, const regard_arguments& arguments)
    : problem_(problem), arguments_(arguments), places_(problem, arguments), rotation_(problem, arguments) {}

NewToken NewTokens::token(std::int64_t batch, std::int64_t i, std::int64_t before) const {
  NewToken token{batch, i, before + i, places_.of_row(batch, before + i)};
  if (packs_new(problem_)) {
    const regard_tensor& offsets = arguments_.tensor[REGARD_OFFSETS_NEW];
    token.row += static_cast<std::int64_t>(decode(offsets.dtype, offsets.data, batch));
  }
  const regard_tensor& positions = arguments_.tensor[REGARD_POSITIONS];
  const auto position = [&](std::int64_t index) {
    return static_cast<std::int64_t>(decode(positions.dtype, positions.data, index));
  };
  if (problem_.positions == Positions::sequence) token.position = position(batch * positions.strides[0]) + i;
  if (problem_.positions == Positions::token)
    token.position = position(positions.rank == 1 ? token.row * positions.strides[0]
                                                  : batch * positions.strides[0] + i * positions.strides[1]);
  return token;
}

NewToken NewTokens::token_with_slot(std::int64_t token) const {
  NewToken result{0, token, 0, places_.of_slot(token)};
  const regard_tensor& positions = arguments_.tensor[REGARD_POSITIONS];
  if (positions.data)
    result.position =
        static_cast<std::int64_t>(decode(positions.dtype, positions.data, token * positions.strides[0]));
  return result;
}

/// A token's own factor scales the largest number of its columns to the largest of the type.
void NewTokens::choose_factor(regard_role role, const NewToken& token, std::int64_t head, std::size_t number,
                              std::size_t first, std::size_t end, StoredRow& row) const {
  const regard_tensor& factors = arguments_.tensor[role == REGARD_K ? REGARD_DESCALE_K : REGARD_DESCALE_V];
  const std::int64_t at = token.place.batch * factors.strides[0] + token.place.row * factors.strides[1] +
                          head * factors.strides[2] + static_cast<std::int64_t>(number);
  const double stored = decode(factors.dtype, factors.data, at);
  StoredFactor& factor = row.factors[number];
  double largest = 0, error = 0;
  for (std::size_t c = first; c < end; ++c) {
    largest = std::isfinite(row.value[c]) ? std::max(largest, std::fabs(row.value[c])) : infinity;
    error = std::max(error, row.error[c]);
    if (std::isinf(largest)) break;
  }
  const double most = largest_stored(c_dtype(problem_.kv));
  factor.exact = largest / most;
  factor.error = error / most + certain(roundings * factor.exact);
  if (std::isinf(largest)) {  // no factor is right
    factor.value = stored;
    factor.error = Output::no_result;
    std::fill(row.error.begin() + static_cast<std::ptrdiff_t>(first),
              row.error.begin() + static_cast<std::ptrdiff_t>(end), Output::no_result);
    return;
  }
  if (factor.exact < smallest_normal) {
    factor.exact = 1;
    factor.error = 0;
  }
  const bool right = judge(REGARD_FP32, stored, factor.exact, factor.error).right();
  factor.value = right ? stored : rounded(REGARD_FP32, factor.exact);
}

StoredRow NewTokens::exact(regard_role role, const NewToken& token, std::int64_t head,
                           double given_factor) const {
  const bool of_keys = role == REGARD_K;
  const regard_tensor& tensor = arguments_.tensor[of_keys ? REGARD_K_NEW : REGARD_V_NEW];
  const auto columns = static_cast<std::size_t>(of_keys ? problem_.d : problem_.dv);
  StoredRow row;
  std::vector<double> size(columns, 0);
  for (std::size_t c = 0; c < columns; ++c)
    row.value.push_back(decode(tensor.dtype, tensor.data,
                               element(tensor, token.batch, token.row, head, static_cast<std::int64_t>(c))));
  const std::size_t rotated = of_keys ? static_cast<std::size_t>(problem_.rotary) : 0;
  if (rotated > 0) rotation_.rotate(token.position, row.value.data(), size.data());
  // 8-bit tokens are as they are in the cache, whose factors are theirs.
  const bool as_it_is = problem_.kv == problem_.dtype;
  const double lost = problem_.dtype == DType::bf16 ? 2 * smallest_normal : 0;
  row.error.assign(columns, as_it_is ? Output::copied : 0.0);
  const auto first = static_cast<std::size_t>(first_rotated(problem_));
  for (std::size_t c = first; c < first + rotated; ++c) row.error[c] = certain(roundings * size[c] + lost);
  row.factors = {{.value = given_factor}};
  if (as_it_is || problem_.descale == Descale::none) return row;

  std::size_t divided = columns;
  if (problem_.descale == Descale::token) {
    choose_factor(role, token, head, 0, 0, columns, row);
  } else if (problem_.descale == Descale::columns) {
    divided = static_cast<std::size_t>(problem_.dv);
    row.of_factor = factor_columns;
    row.factors.resize(divided / row.of_factor);
    for (std::size_t i = 0; i < row.factors.size(); ++i)
      choose_factor(role, token, head, i, i * row.of_factor, (i + 1) * row.of_factor, row);
  }
  for (std::size_t c = 0; c < divided; ++c) {
    if (row.error[c] == Output::no_result) continue;
    const double factor = row.factor_of(c);
    row.value[c] /= factor;
    row.error[c] = row.error[c] / std::fabs(factor) + certain(roundings * std::fabs(row.value[c]));
  }
  return row;
}

std::vector<double> NewTokens::read_back(regard_role role, const NewToken& token, std::int64_t head,
                                         double given_factor) const {
  StoredRow row = exact(role, token, head, given_factor);
  const StoredKeys keys(problem_, arguments_, role);
  for (std::size_t c = 0; c < row.value.size(); ++c) {
    const auto column = static_cast<std::int64_t>(c);
    const double stored = keys.at(token.place, head, column);
    const regard_dtype dtype = keys.dtype(column);
    const bool right =
        row.error[c] == Output::no_result || judge(dtype, stored, row.value[c], row.error[c]).right();
    row.value[c] = (right ? stored : rounded(dtype, row.value[c])) * row.factor_of(c);
  }
  return row.value;
}

}  // namespace regard::oracle
