#include "plan/function_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "function/row_range.h"
#include "plan/function_bits.h"
#include "plan/function_forms.h"
#include "plan/function_sums.h"
#include "problem/functions.h"
#include "problem/tensors.h"

namespace regard {

namespace {

/// The functions with literals in place of their numbers.
Result<Functions> literal_functions(const Problem& problem) {
  Result<Functions> functions = functions_of(problem);
  if (!functions) return functions;
  const std::vector<function::Number> numbers(problem.numbers.of.begin(),
                                              problem.numbers.of.begin() + problem.numbers.count);
  for (function::Function* one : {&functions->keep, &functions->score}) {
    if (one->root == function::none) continue;
    Result<function::Function> literal = function::with_literals(*one, numbers);
    if (!literal) return tl::unexpected(literal.error());
    *one = std::move(*literal);
  }
  return functions;
}

static_assert(most_in_sums <= function::most_in_ranges);
bool may_wrap(const Problem& problem) {
  return problem.sq >= most_in_sums || problem.sk >= most_in_sums;
}

/// With rope a mask also gives queries their positions.
void set_edges_beside(const function::Function& keep, Problem& words) {
  if (words.mask == Mask::none && words.rope == Rope::none) set_edges(keep, words);
}

/// Words without functions, which `set_keep(keep, words)` gives a mask before the score is set.
template <class SetKeep>
Result<FunctionWords> words_of(const Problem& problem, const SetKeep& set_keep) {
  const Result<Functions> functions = literal_functions(problem);
  if (!functions) return tl::unexpected(functions.error());
  FunctionWords result{problem, problem, {}, {}, {}};
  Problem& words = result.problem;
  words.score = words.keep = words.tensors = words.grads = {};
  words.numbers = {};
  if (!problem.keep.empty()) {
    if (Status status = set_keep(functions->keep, words); !status) return tl::unexpected(status.error());
  }
  if (!problem.score.empty()) {
    auto tensor = set_score(functions->score, functions->gradients, words);
    if (!tensor) return tl::unexpected(tensor.error());
    result.tensor = *tensor;
  }
  if (Status status = validate(words); !status) return tl::unexpected(status.error());
  return result;
}

}  // namespace

Result<FunctionWords> in_words(const Problem& problem) {
  if (problem.rope != Rope::none) return invalid("with rope a mask also gives queries their positions");
  if (may_wrap(problem)) return invalid("positions would wrap");
  return words_of(problem, set_mask);
}

Result<FunctionWords> in_ranges(const Problem& problem) {
  if (problem.keep.empty()) return invalid("there is no keep, and a score is not a mask");
  if (problem.ranges) return invalid("there are ranges beside keep");
  if (may_wrap(problem)) return invalid("positions would wrap");
  Result<FunctionSteps> steps = range_steps(problem);
  if (!steps) return tl::unexpected(steps.error());
  if (reads(*steps, {function::Variable::h, function::Variable::hk}))
    return invalid("ranges are the same for all heads, and its keys depend on the head");
  Result<FunctionWords> result = words_of(problem, [](const function::Function& keep, Problem& words) {
    set_edges_beside(keep, words);
    words.ranges = true;
    return Status();
  });
  if (result) result->ranges = std::move(*steps);
  return result;
}

Result<FunctionWords> in_bits(const Problem& problem) {
  if (problem.keep.empty()) return invalid("there is no keep, and a score is not a mask");
  if (problem.bits) return invalid("there are bits beside keep");
  if (may_wrap(problem)) return invalid("positions would wrap");
  Result<FunctionSteps> steps = mask_steps(problem);
  if (!steps) return tl::unexpected(steps.error());
  const std::int64_t bytes = BitsShape(problem, *steps).bytes();
  if (bytes > most_bytes_of_bits)
    return invalid(fmt::format("its bits would take more than {} MiB", most_bytes_of_bits >> 20));
  Result<FunctionWords> result = words_of(problem, [](const function::Function& keep, Problem& words) {
    set_edges_beside(keep, words);
    words.bits = true;
    return Status();
  });
  if (result) result->mask = std::move(*steps);
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
