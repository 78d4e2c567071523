// One sentence for a problem that no candidate solves.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace regard {

std::string refusal_of(const Problem&, const Target&, const std::vector<Verdict>&);

}  // namespace regard
