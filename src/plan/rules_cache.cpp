// Rules about KV caches.
#include "plan/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace regard {

Refusal reads_cache(const Question& q) {
  const Problem& p = q.problem;
  const std::pair<std::string_view, bool> missing[] = {
      {"K and V of another type than Q", p.kv != p.dtype},
      {"vectorized pages", p.paged > 0 && p.kv_layout == KvLayout::vectorized},
      {"factors of tokens or pages", p.descale == Descale::token || p.descale == Descale::page},
  };
  for (const auto& [what, asked] : missing) {
    if (asked) return "it does not take " + std::string(what);
  }
  return {};
}

Refusal cache_type_on_target(const Question& q) {
  const DType kv = q.problem.kv;
  if (kv == DType::int8 || std::ranges::find(q.target.dtypes, kv) != q.target.dtypes.end()) return {};
  return fmt::format("{} does not convert to {}; keep the cache in the type of Q, or use kv=int8",
                     q.target.name, word(kv));
}

}  // namespace regard
