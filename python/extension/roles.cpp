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

}  // namespace regard::python
