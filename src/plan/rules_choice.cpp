// What the caller wants: kernels asked for by name, ones switched off.
#include <fmt/format.h>

#include "base/printable.h"
#include "plan/rules.h"

namespace regard {

Refusal asked_for(const Question& q) {
  if (q.options.family.empty() || goes_by(q.candidate, q.options.family)) return {};
  return fmt::format("only {} was asked for, and it does not go by that", in_quotes(q.options.family));
}

Refusal not_disabled(const Question& q) {
  for (const std::string& name : q.options.disabled) {
    if (goes_by(q.candidate, name)) {
      return fmt::format("{} is switched off; take it out of REGARD_DISABLE", in_quotes(name));
    }
  }
  return {};
}

}  // namespace regard
