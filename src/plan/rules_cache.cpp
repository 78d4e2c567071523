// Rules about KV caches.
#include <initializer_list>

#include "plan/rules.h"

namespace regard {
namespace {

struct Lacks {
  std::string_view what;
  bool asked;
};

Refusal first_of(std::initializer_list<Lacks> list) {
  for (const auto& [what, asked] : list) {
    if (asked) return "it does not take " + std::string(what);
  }
  return {};
}

}  // namespace

Refusal no_new_tokens(const Question& q) {
  return first_of({{"new tokens", writes_cache(q.problem)}});
}

Refusal reads_cache(const Question& q) {
  const Problem& p = q.problem;
  return first_of(
      {{"new tokens", writes_cache(p)},
       {"K and V of another type than Q", p.kv != p.dtype},
       {"vectorized pages", p.paged > 0 && p.kv_layout == KvLayout::vectorized},
       {"factors of tokens or pages", p.descale == Descale::token || p.descale == Descale::page}});
}

}  // namespace regard
