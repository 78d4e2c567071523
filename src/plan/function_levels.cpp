#include "plan/function_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace regard {
namespace {

using function::Kind;
using function::Variable;

/// What a step depends on, from the least frequent on.
enum Level : unsigned char { call, sequence, head, row, key, pair, level_count };

constexpr std::array<std::string_view, level_count> names = {"call", "sequence", "head",
                                                             "row",  "key",      "pair"};

Level level_of(const FunctionStep& step, const std::vector<Level>& earlier) {
  if (step.by_row) return step.by_key ? pair : row;
  if (step.by_key) return key;
  if (step.kind == Kind::variable) {
    const auto variable = static_cast<Variable>(step.which);
    return variable == Variable::h || variable == Variable::hk ? head : sequence;
  }
  Level level = call;
  for (int i = 0; i < step.count; ++i)
    level = std::max(level, earlier[static_cast<std::size_t>(step.operands[i])]);
  return level;
}

}  // namespace

std::string operations_by_level(const FunctionSteps& function) {
  std::vector<Level> levels;
  std::array<int, level_count> counts{};
  for (const FunctionStep& step : function.steps) {
    levels.push_back(level_of(step, levels));
    if (step.kind == Kind::operation || step.kind == Kind::load) ++counts[levels.back()];
  }
  std::string text;
  for (std::size_t level = 0; level < level_count; ++level)
    if (const int count = counts[level]; count > 0)
      text += text.empty()
                  ? fmt::format("{} operation{} for each {}", count, count > 1 ? "s" : "", names[level])
                  : fmt::format(", {} for each {}", count, names[level]);
  return text.empty() ? "no operations" : text;
}

}  // namespace regard
