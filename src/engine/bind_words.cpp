#include "engine/bind_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "plan/function_words.h"
#include "problem/tensors.h"

namespace regard {
namespace {

/// The view of a captured tensor that has the role's dimensions. A tensor that is larger than the indices is
/// cut; one element is read at all indices. A gradient has to be written whole.
Result<regard_tensor> view_of(const regard_tensor& given, const CapturedAsWord& word, const TensorSpec& spec,
                              const TensorSpec& as_given) {
  const std::size_t rank = spec.shape.size(), given_rank = as_given.shape.size();
  const bool written = is_written(spec.use);
  regard_tensor view = given;
  view.rank = static_cast<std::int32_t>(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    view.shape[i] = spec.broadcast[i] && !written ? 1 : spec.shape[i];
    view.strides[i] = 0;
  }
  for (std::size_t i = 0; i < given_rank; ++i) {
    const std::int64_t size = given.shape[i];
    const int dimension = word.dimensions[i];
    const std::int64_t indices = dimension < 0 ? 1 : spec.shape[static_cast<std::size_t>(dimension)];
    const bool fits = written ? size == indices : size >= indices || size == 1;
    if (!fits)
      return invalid(fmt::format("tensor '{}' has shape [{}], and the word {} of {} elements in dimension {}",
                                 label(as_given), fmt::join(std::span(given.shape, given_rank), ", "),
                                 written ? "writes a gradient" : "reads each", indices, i));
    if (dimension < 0 || size < indices) continue;
    view.shape[dimension] = indices;
    view.strides[dimension] = given.strides[i];
  }
  return view;
}

}  // namespace

Result<const regard_arguments*> in_roles_of_words(const Plan& plan, const regard_arguments& given,
                                                  regard_arguments& storage) {
  if (plan.words == nullptr || !plan.words->tensor) return &given;
  const CapturedAsWord& word = *plan.words->tensor;
  storage = given;
  const auto move = [&](regard_role from, regard_role to) -> Status {
    const TensorSpec as_given = tensor_spec(plan.words->functions, from);
    if (as_given.use == REGARD_UNUSED) return {};
    TensorSpec spec = tensor_spec(plan.problem, to);
    Result<regard_tensor> view = view_of(given.tensor[from], word, spec, as_given);
    if (!view) return tl::unexpected(view.error());
    spec.given_name = as_given.given_name;
    spec.name = as_given.name;
    if (Status status = check_tensor(plan.problem, spec, *view); !status) return status;
    storage.tensor[to] = *view;
    if (!plan.words->mask) storage.tensor[from] = {};  // the mask can read it too
    return {};
  };
  Status status = move(captured(word.index), word.role);
  if (status) status = move(grad_captured(word.index), REGARD_GRAD_BIAS);
  if (status) return &storage;
  return invalid(fmt::format("the functions are planned as '{}', which does not take this tensor: {}",
                             print(plan.problem), status.error().message));
}

}  // namespace regard
