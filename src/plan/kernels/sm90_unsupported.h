// What no kernel for Hopper has, of what a problem may ask for.
#pragma once

#include <string>
#include <string_view>

#include "plan/rules.h"

namespace regard {

/// Refuses a problem that asks for any of it. `instead`: the kernel that has it.
Refusal sm90_unsupported(const Problem&, std::string_view instead);
/// The sentence for one thing that a kernel has not.
std::string unsupported(std::string_view what, std::string_view instead);

}  // namespace regard
