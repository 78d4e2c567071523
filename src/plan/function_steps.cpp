#include "plan/function_steps.h"

#include <algorithm>

#include "function/derivative.h"
#include "function/row_range.h"
#include "problem/functions.h"

namespace regard {
namespace {

using function::Function;
using function::Kind;
using function::Node;
using function::NodeIndex;
using function::Variable;

/// Adds the nodes that a root needs, operands first.
class Writer {
 public:
  Writer(const Function& function, const FunctionNumbers& numbers, std::vector<FunctionStep>& steps)
      : function_(function), numbers_(numbers), steps_(steps) {}

  i32 step_of(NodeIndex root) {
    if (root == function::none) return -1;
    done_.resize(function_.tree.nodes().size(), -1);
    i32& done = done_[static_cast<std::size_t>(root)];
    if (done < 0) {
      const FunctionStep step = made(function_.tree[root]);  // which adds steps before it
      done_[static_cast<std::size_t>(root)] = static_cast<i32>(steps_.size());
      steps_.push_back(step);
    }
    return done_[static_cast<std::size_t>(root)];
  }

 private:
  FunctionStep made(const Node& node) {
    FunctionStep step{.kind = node.kind,
                      .type = node.type,
                      .operand = node.type,
                      .which = node.which,
                      .count = static_cast<u8>(node.count()),
                      .bits = node.kind == Kind::number ? numbers_.of[node.which].bits : node.bits,
                      .operands = {-1, -1, -1, -1}};
    if (step.count > 0) step.operand = function_.tree[node.operands[0]].type;
    if (node.kind == Kind::variable) depend(step, static_cast<Variable>(node.which));
    for (int i = 0; i < step.count; ++i) {
      step.operands[i] = step_of(node.operands[static_cast<std::size_t>(i)]);
      const FunctionStep& operand = steps_[static_cast<std::size_t>(step.operands[i])];
      step.by_row |= operand.by_row;
      step.by_key |= operand.by_key;
    }
    return step;
  }

  static void depend(FunctionStep& step, Variable variable) {
    const bool is_score = variable == Variable::s;
    step.by_row = is_score || variable == Variable::q || variable == Variable::p || variable == Variable::tq;
    step.by_key = is_score || variable == Variable::kv || variable == Variable::tk;
  }

  const Function& function_;
  const FunctionNumbers& numbers_;
  std::vector<FunctionStep>& steps_;
  std::vector<i32> done_;
};

Result<FunctionSteps> steps_of(const Result<function::RowRange>& range, const FunctionNumbers& numbers) {
  if (!range) return tl::unexpected(range.error());
  FunctionSteps result;
  Writer writer(range->function, numbers, result.steps);
  result.call.begin = writer.step_of(range->begin);
  result.call.end = writer.step_of(range->end);
  result.call.score = result.call.keep = result.call.slope = -1;
  result.call.count = result.call.end_of_values = static_cast<i32>(result.steps.size());
  return result;
}

}  // namespace

Result<FunctionSteps> function_steps(const Problem& p) {
  Result<Functions> functions = functions_of(p);
  if (!functions) return tl::unexpected(functions.error());
  Function& score = functions->score;
  function::Derivatives derivatives;
  const bool derives = p.pass == Pass::bwd && score.root != function::none;
  if (derives) derivatives = function::derivatives(score, functions->gradients);

  FunctionSteps result;
  Writer of_score(score, p.numbers, result.steps), of_keep(functions->keep, p.numbers, result.steps);
  FunctionCall& call = result.call;
  call.score = of_score.step_of(score.root);
  call.keep = of_keep.step_of(functions->keep.root);
  call.end_of_values = static_cast<i32>(result.steps.size());
  call.slope = of_score.step_of(derivatives.by_score);
  call.begin = call.end = -1;
  for (const function::LoadDerivative& one : derivatives.loads) {
    const i32 load = of_score.step_of(one.load), derivative = of_score.step_of(one.derivative);
    result.derivatives.push_back({load, derivative});
  }
  call.count = static_cast<i32>(result.steps.size());
  call.derivative_count = static_cast<i32>(result.derivatives.size());
  return result;
}

Result<FunctionSteps> mask_steps(const Problem& p) {
  const Result<Functions> functions = functions_of(p);
  if (!functions) return tl::unexpected(functions.error());
  FunctionSteps result;
  result.call.keep = Writer(functions->keep, p.numbers, result.steps).step_of(functions->keep.root);
  result.call.score = result.call.slope = result.call.begin = result.call.end = -1;
  result.call.count = result.call.end_of_values = static_cast<i32>(result.steps.size());
  return result;
}

Result<FunctionSteps> range_steps(const Problem& p) {
  const Result<Functions> functions = functions_of(p);
  if (!functions) return tl::unexpected(functions.error());
  return steps_of(function::row_range(functions->keep, std::span(p.numbers.of).first(p.numbers.count)),
                  p.numbers);
}

Result<FunctionSteps> range_steps_of_any_numbers(const Problem& p) {
  const Result<Functions> functions = functions_of(p);
  if (!functions) return tl::unexpected(functions.error());
  return steps_of(function::row_range_of_any_numbers(functions->keep), p.numbers);
}

bool reads(const FunctionSteps& function, std::initializer_list<Variable> variables) {
  return std::ranges::any_of(function.steps, [variables](const FunctionStep& step) {
    return step.kind == Kind::variable &&
           std::ranges::find(variables, static_cast<Variable>(step.which)) != variables.end();
  });
}

}  // namespace regard
