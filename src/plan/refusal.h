// One sentence for a problem that no candidate solves.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/plan.h"

namespace regard {

/// What the problem asks for and no kernel does on any target yet, and what works instead; empty: nothing.
std::string_view unwritten(const Problem&);

/// Why one candidate lost, under the stages of its recipe; tiles of one recipe are told once.
struct Reason {
  std::string_view stages;
  const Verdict* verdict;
  bool has_kernel;  // the target has one for it, whatever else was said
};

/// "forward: it does not take fp8; ...": one reason per recipe, that of the tile which got farthest through
/// the rules, and what is switched off.
std::string told(std::span<const Reason>);

std::string refusal_of(const Problem&, const Target&, std::span<const Reason>);

}  // namespace regard
