// Tensors by name, and the order of their axes.
#pragma once

#include <array>
#include <string_view>

#include "regard/regard.h"

namespace regard::python {

/// The role of a name, or REGARD_ROLE_COUNT.
regard_role role_from_name(std::string_view name);

/// The order of a [batch, sequence, head, dim] tensor's axes as the Python caller indexes it: entry i is the
/// axis of the caller's array that holds logical axis i. An array is indexed in the order of the problem's
/// `layout`, so that a contiguous array always is what that layout means.
using AxisOrder = std::array<int, 4>;
AxisOrder axis_order(std::string_view layout);

/// The layout that a problem's canonical text names: it does where that is not the usual one.
std::string_view layout_of(std::string_view text);

/// Whether `layout` reorders this role's axes: Q, K, V, O and their gradients, when they have all four.
bool follows_layout(regard_role role, int rank);

}  // namespace regard::python
