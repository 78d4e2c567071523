// One sentence for a problem that no candidate solves.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace regard {

/// "cpu_forward: it does not take fp8; ...": one reason per recipe, that of the tile that got furthest
/// through the rules, and what is switched off.
std::string summarize(std::span<const Verdict* const>);

std::string refusal_of(const Problem&, const Target&, std::span<const Verdict* const>);

}  // namespace regard
