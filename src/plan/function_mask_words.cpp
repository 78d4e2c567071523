#include <algorithm>
#include <optional>
#include <vector>

#include "plan/function_forms.h"
#include "plan/function_sums.h"

namespace regard {
namespace {

using function::Function;
using function::Kind;
using function::Node;
using function::NodeIndex;
using function::Operation;

/// A comparison of whole numbers as sum <= 0.
std::optional<PlaceSum> at_most_0(const Function& f, NodeIndex index) {
  const Node& node = f.tree[index];
  if (node.kind != Kind::operation) return {};
  const bool less = node.operation() == Operation::less;
  if (!less && node.operation() != Operation::less_equal) return {};
  const std::optional<PlaceSum> x = sum_of(f, node.operands[0]), y = sum_of(f, node.operands[1]);
  if (!x || !y) return {};
  PlaceSum difference = *x - *y;
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
  bool add_edge(PlaceSum sum) {
    const std::int64_t width = -sum.constant;
    sum.constant = 0;
    const bool is_right = sum == after_q || sum == after_p;
    const bool is_left = sum == PlaceSum{} - after_q || sum == PlaceSum{} - after_p;
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
      std::optional<PlaceSum> sink = at_most_0(f, parts[i]);
      const std::optional<PlaceSum> edge = at_most_0(f, parts[1 - i]);
      if (!sink || !edge) continue;
      const std::int64_t tokens = 1 - sink->constant;
      sink->constant = 0;
      if (*sink != PlaceSum{.kv = 1} || tokens < 1) continue;
      sink_tokens = tokens;
      return add_edge(*edge) && left >= 0;
    }
    return false;
  }
};

std::optional<Window> window_of(const Function& keep) {
  std::vector<NodeIndex> conditions;
  collect(keep, keep.root, Operation::logical_and, conditions);
  Window window;
  bool has_sink = false;
  for (const NodeIndex condition : conditions) {
    const std::optional<PlaceSum> edge = at_most_0(keep, condition);
    if (edge && edge->kv < 0 && has_sink) return {};  // it hides sink tokens
    if (edge ? !window.add_edge(*edge) : !window.add_sink(keep, condition)) return {};
    has_sink |= !edge;
  }
  return window;
}

void set_window(const Window& window, Problem& words) {
  const bool top = window.top_left.value_or(false);
  if (window.left < 0 && window.right == 0) {
    words.mask = top ? Mask::causal_top_left : Mask::causal;
    return;
  }
  words.mask = top ? Mask::window_top_left : Mask::window;
  words.window_left = window.left;
  words.window_right = window.right;
  words.sink_tokens = window.sink_tokens;
}

}  // namespace

Status set_mask(const Function& keep, Problem& words) {
  if (words.mask != Mask::none) return invalid("there is a mask beside keep");
  const std::optional<Window> window = window_of(keep);
  if (!window) return invalid("no word says keep");
  set_window(*window, words);
  return {};
}

void set_edges(const Function& keep, Problem& words) {
  std::vector<NodeIndex> conditions;
  collect(keep, keep.root, Operation::logical_and, conditions);
  Window window;
  bool found = false;
  for (const NodeIndex condition : conditions)
    if (const std::optional<PlaceSum> edge = at_most_0(keep, condition)) found |= window.add_edge(*edge);
  if (found) set_window(window, words);
}

}  // namespace regard
