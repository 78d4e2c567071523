// Tensors by name, and the order of their axes.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "regard/regard.h"

namespace regard::python {

/// A call has one of these, whose library makes the results and names the stream.
inline constexpr regard_role leading_roles[] = {REGARD_Q, REGARD_K_NEW, REGARD_PARTIAL_O};

/// The role of a name, or REGARD_ROLE_COUNT.
regard_role role_from_name(std::string_view name);

/// The order of the axes of a [batch, sequence, head, dim] tensor as the Python caller indexes it: entry i is
/// the axis of the caller's array that holds logical axis i. An array is indexed in the order of the
/// problem's `layout`, so that a contiguous array always has the memory order that the layout names.
using AxisOrder = std::array<int, 4>;
AxisOrder axis_order(std::string_view layout);

/// The layout that a problem's canonical text names, which it does only for layouts other than the default.
std::string_view layout_of(std::string_view text);

/// Whether `layout` reorders this role's axes: Q, K, V, O and their gradients, if they have all four.
bool follows_layout(regard_role role, int rank);

/// Whether a role is that of a tensor that functions read.
inline bool is_captured(regard_role role) {
  return role >= REGARD_CAPTURED_0 && role <= REGARD_CAPTURED_7;
}

/// The name of a tensor in messages: that of the role, or the problem's own name for a captured tensor.
std::string name_for_messages(regard_role role, const regard_problem* problem);

}  // namespace regard::python
