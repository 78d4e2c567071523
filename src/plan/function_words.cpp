#include "plan/function_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/function_forms.h"
#include "plan/function_sums.h"
#include "problem/functions.h"
#include "problem/tensors.h"

namespace regard {

Result<FunctionWords> in_words(const Problem& problem) {
  if (problem.rope != Rope::none) return invalid("with rope a mask also gives queries their positions");
  if (problem.sq >= most_in_sums || problem.sk >= most_in_sums) return invalid("positions would wrap");
  Result<Functions> functions = functions_of(problem);
  if (!functions) return tl::unexpected(functions.error());
  const std::vector<function::Number> numbers(problem.numbers.of.begin(),
                                              problem.numbers.of.begin() + problem.numbers.count);
  FunctionWords result{problem, problem, {}};
  Problem& words = result.problem;
  words.score = words.keep = words.tensors = words.grads = {};
  words.numbers = {};
  if (!problem.keep.empty()) {
    const Result<function::Function> keep = function::with_literals(functions->keep, numbers);
    if (!keep) return tl::unexpected(keep.error());
    if (Status status = set_mask(*keep, words); !status) return tl::unexpected(status.error());
  }
  if (!problem.score.empty()) {
    const Result<function::Function> score = function::with_literals(functions->score, numbers);
    if (!score) return tl::unexpected(score.error());
    auto tensor = set_score(*score, functions->gradients, words);
    if (!tensor) return tl::unexpected(tensor.error());
    result.tensor = *tensor;
  }
  if (Status status = validate(words); !status) return tl::unexpected(status.error());
  return result;
}

std::string condition_of(const FunctionWords& words, bool on_cpu) {
  const TensorSpec given = tensor_spec(words.functions, captured(words.tensor->index)),
                   spec = tensor_spec(words.problem, words.tensor->role);
  return fmt::format("{} is read as {}, {} [{}]; {}", given.given_name, spec.name, word(spec.dtype),
                     fmt::join(spec.shape, ", "),
                     on_cpu ? "if its type or sizes do not fit, the functions are interpreted"
                            : "if its type or sizes do not fit, the call is refused");
}

}  // namespace regard
