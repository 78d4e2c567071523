// Rules: small named functions that accept a candidate or refuse it with a sentence: why, and what would
// work.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plan/recipe.h"

namespace regard {

struct Question {
  const Problem& problem;
  const Target& target;
  const Candidate& candidate;
  const PlanOptions& options;
};

/// Nothing when accepted.
using Refusal = std::optional<std::string>;

struct Rule {
  std::string_view name;
  Refusal (*check)(const Question&);
};

/// In the order in which they are asked.
std::span<const Rule> rules();

}  // namespace regard
