// Rules about KV caches.
#include "plan/rules.h"

namespace regard {

Refusal no_cache(const Question& q) {
  const Problem& p = q.problem;
  const std::pair<std::string_view, bool> missing[] = {
      {"pages", p.paged > 0},
      {"new tokens", writes_cache(p)},
      {"cache_index", p.cache > 0},
      {"left padding", p.left_padding},
      {"K and V of another type than Q", p.kv != p.dtype},
      {"factors of tokens", p.descale == Descale::token},
  };
  for (const auto& [what, asked] : missing) {
    if (asked) return "it does not take " + std::string(what);
  }
  return {};
}

Refusal no_new_tokens(const Question& q) {
  if (!writes_cache(q.problem)) return {};
  return std::string("it has no new tokens");
}

}  // namespace regard
