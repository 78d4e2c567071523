// Features that no kernel for Hopper supports.
#pragma once

#include <string>
#include <string_view>

#include "plan/rules.h"

namespace regard {

/// Refuses a problem that requests any of them. `instead`: the kernel that supports it.
Refusal sm90_unsupported(const Problem&, std::string_view instead);
/// The sentence for a feature that a kernel does not support.
std::string unsupported(std::string_view what, std::string_view instead);

}  // namespace regard
