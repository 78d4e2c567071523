#include "roles.h"

#include <unordered_map>

namespace regard::python {

regard_role role_from_name(std::string_view name) {
  static const auto& roles = *new std::unordered_map<std::string_view, regard_role>([] {
    std::unordered_map<std::string_view, regard_role> all;
    for (int role = 0; role < REGARD_ROLE_COUNT; ++role)
      all.emplace(regard_role_name(static_cast<regard_role>(role)), static_cast<regard_role>(role));
    return all;
  }());
  const auto found = roles.find(name);
  return found == roles.end() ? REGARD_ROLE_COUNT : found->second;
}

AxisOrder axis_order(std::string_view layout) {
  AxisOrder order{};
  const std::string_view logical = "bshd";
  for (std::size_t axis = 0; axis < 4; ++axis) order[axis] = static_cast<int>(layout.find(logical[axis]));
  return order;
}

std::string_view layout_of(std::string_view text) {
  constexpr std::string_view word = " layout=";
  const std::size_t found = text.find(word);
  return found == std::string_view::npos ? "bshd" : text.substr(found + word.size(), 4);
}

bool follows_layout(regard_role role, int rank) {
  const bool sequence = (role >= REGARD_Q && role <= REGARD_O) ||
                        (role >= REGARD_GRAD_O && role <= REGARD_GRAD_V) || role == REGARD_K_NEW ||
                        role == REGARD_V_NEW;
  return sequence && rank == 4;
}

std::string name_for_messages(regard_role role, const regard_problem* problem) {
  std::string_view text = regard_problem_text(problem);
  constexpr std::string_view word = " tensors=";
  const std::size_t found = is_captured(role) ? text.find(word) : std::string_view::npos;
  if (found == std::string_view::npos) return regard_role_name(role);
  text.remove_prefix(found + word.size());
  for (int index = REGARD_CAPTURED_0; index < role; ++index) text.remove_prefix(text.find(',') + 1);
  return std::string(text.substr(0, text.find(':')));
}

}  // namespace regard::python
