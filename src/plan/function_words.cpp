#include "plan/function_words.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "problem/functions.h"

namespace regard {
namespace {

using function::Function;
using function::Kind;
using function::Node;
using function::NodeIndex;
using function::Operation;
using function::Variable;

/// q, kv, sq and sk, each times a whole number, and a constant.
struct Sum {
  std::int64_t q = 0, kv = 0, sq = 0, sk = 0, constant = 0;

  friend bool operator==(const Sum&, const Sum&) = default;
  Sum operator-(const Sum& other) const {
    return {q - other.q, kv - other.kv, sq - other.sq, sk - other.sk, constant - other.constant};
  }
};

/// Below this, sums of a few of them do not leave int32, so that they do not wrap.
constexpr std::int64_t most = 1 << 28;

std::optional<Sum> sum_of(const Function& f, NodeIndex index) {
  const Node& node = f.tree[index];
  switch (node.kind) {
    case Kind::constant: {
      const std::int64_t value = std::bit_cast<std::int32_t>(node.bits);
      if (node.type != function::Type::integer || value > most || value < -most) return {};
      return Sum{.constant = value};
    }
    case Kind::variable:
      switch (static_cast<Variable>(node.which)) {
        case Variable::q:
          return Sum{.q = 1};
        case Variable::kv:
          return Sum{.kv = 1};
        case Variable::p:
          return Sum{.q = 1, .sq = -1, .sk = 1};
        case Variable::sq:
          return Sum{.sq = 1};
        case Variable::sk:
          return Sum{.sk = 1};
        default:
          return {};
      }
    case Kind::operation:
      break;
    default:
      return {};
  }
  const Operation operation = node.operation();
  if (operation == Operation::negate) {
    const std::optional<Sum> x = sum_of(f, node.operands[0]);
    return x ? std::optional(Sum{} - *x) : std::nullopt;
  }
  if (operation != Operation::add && operation != Operation::subtract) return {};
  const std::optional<Sum> x = sum_of(f, node.operands[0]), y = sum_of(f, node.operands[1]);
  if (!x || !y) return {};
  return operation == Operation::subtract ? *x - *y : *x - (Sum{} - *y);
}

/// A comparison of whole numbers as sum <= 0.
std::optional<Sum> at_most_0(const Function& f, NodeIndex index) {
  const Node& node = f.tree[index];
  if (node.kind != Kind::operation) return {};
  const bool less = node.operation() == Operation::less;
  if (!less && node.operation() != Operation::less_equal) return {};
  const std::optional<Sum> x = sum_of(f, node.operands[0]), y = sum_of(f, node.operands[1]);
  if (!x || !y) return {};
  Sum difference = *x - *y;
  if (less) ++difference.constant;
  return difference;
}

/// The parts that an operation joins.
void collect(const Function& f, NodeIndex index, Operation operation, std::vector<NodeIndex>& parts) {
  const Node& node = f.tree[index];
  if (node.kind != Kind::operation || node.operation() != operation) return parts.push_back(index);
  collect(f, node.operands[0], operation, parts);
  collect(f, node.operands[1], operation, parts);
}

/// What conditions say together.
struct Window {
  std::int64_t left = -1, right = -1, sink_tokens = 0;
  std::optional<bool> top_left;

  static std::int64_t narrower(std::int64_t a, std::int64_t b) { return a < 0 ? b : std::min(a, b); }

  /// The key is at most `right` after the diagonal, or at most `left` before it.
  bool add_edge(Sum sum) {
    const std::int64_t width = -sum.constant;
    sum.constant = 0;
    const Sum right_of_top = {.q = -1, .kv = 1}, right_of_bottom = {.q = -1, .kv = 1, .sq = 1, .sk = -1};
    const bool is_right = sum == right_of_top || sum == right_of_bottom;
    const bool is_left = sum == Sum{} - right_of_top || sum == Sum{} - right_of_bottom;
    if ((!is_right && !is_left) || width < 0) return false;
    const bool top = sum.sq == 0;
    if (top_left && *top_left != top) return false;
    top_left = top;
    (is_right ? right : left) = narrower(is_right ? right : left, width);
    return true;
  }

  /// kv < N, or at most `left` before the diagonal.
  bool add_sink(const Function& f, NodeIndex index) {
    std::vector<NodeIndex> parts;
    collect(f, index, Operation::logical_or, parts);
    if (parts.size() != 2 || left >= 0 || sink_tokens > 0) return false;
    for (std::size_t i = 0; i < 2; ++i) {
      std::optional<Sum> sink = at_most_0(f, parts[i]);
      const std::optional<Sum> edge = at_most_0(f, parts[1 - i]);
      if (!sink || !edge) continue;
      const std::int64_t tokens = 1 - sink->constant;
      sink->constant = 0;
      if (*sink != Sum{.kv = 1} || tokens < 1) continue;
      sink_tokens = tokens;
      return add_edge(*edge) && left >= 0;
    }
    return false;
  }
};

bool set_mask(const Function& keep, Problem& p) {
  std::vector<NodeIndex> conditions;
  collect(keep, keep.root, Operation::logical_and, conditions);
  Window window;
  bool has_sink = false;
  for (const NodeIndex condition : conditions) {
    const std::optional<Sum> edge = at_most_0(keep, condition);
    if (edge && edge->kv < 0 && has_sink) return false;  // it hides sink tokens
    if (edge ? !window.add_edge(*edge) : !window.add_sink(keep, condition)) return false;
    has_sink |= !edge;
  }
  const bool top = window.top_left.value_or(false);
  if (window.left < 0 && window.right == 0) {
    p.mask = top ? Mask::causal_top_left : Mask::causal;
    return true;
  }
  p.mask = top ? Mask::window_top_left : Mask::window;
  p.window_left = window.left;
  p.window_right = window.right;
  p.sink_tokens = window.sink_tokens;
  return true;
}

/// cap * tanh(s / cap), or s.
bool set_cap(const Function& f, Problem& p) {
  const auto is = [&f](NodeIndex index, Operation operation) {
    return f.tree[index].kind == Kind::operation && f.tree[index].operation() == operation;
  };
  const auto is_score = [&f](NodeIndex index) {
    return f.tree[index].kind == Kind::variable && f.tree[index].which == static_cast<int>(Variable::s);
  };
  if (is_score(f.root)) return true;
  if (!is(f.root, Operation::multiply)) return false;
  const auto& [x, y, unused, none] = f.tree[f.root].operands;
  for (const auto& [tanh, cap] : {std::pair(x, y), std::pair(y, x)}) {
    if (!is(tanh, Operation::tanh) || f.tree[cap].kind != Kind::constant) continue;
    const NodeIndex quotient = f.tree[tanh].operands[0];
    if (!is(quotient, Operation::divide)) continue;
    const auto& operands = f.tree[quotient].operands;
    if (!is_score(operands[0]) || operands[1] != cap) continue;
    p.softcap = std::bit_cast<float>(f.tree[cap].bits);
    return p.softcap > 0 && validate(p).has_value();
  }
  return false;
}

}  // namespace

Problem in_words(const Problem& problem) {
  // With rope a mask also gives queries positions of their own.
  const bool can_be = has_function(problem) && problem.tensors.empty() && problem.rope == Rope::none &&
                      problem.sq < most && problem.sk < most;
  if (!can_be) return problem;
  const std::vector<function::Number> numbers(problem.numbers.of.begin(),
                                              problem.numbers.of.begin() + problem.numbers.count);
  const auto literal = [&](const Function& f) { return function::with_literals(f, numbers); };
  const Result<Functions> functions = functions_of(problem);
  if (!functions) return problem;
  Problem words = problem;
  words.score = words.keep = {};
  words.numbers = {};
  if (!problem.keep.empty()) {
    const Result<Function> keep = literal(functions->keep);
    if (problem.mask != Mask::none || !keep || !set_mask(*keep, words)) return problem;
  }
  if (!problem.score.empty()) {
    const Result<Function> score = literal(functions->score);
    if (!score || !set_cap(*score, words)) return problem;
  }
  return words;
}

}  // namespace regard
