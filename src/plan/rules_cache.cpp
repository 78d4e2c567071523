// Rules about KV caches.
#include <fmt/format.h>

#include <algorithm>

#include "plan/rules.h"

namespace regard {
namespace {

bool converts(const Target& target, DType type) {
  return type == DType::int8 || std::ranges::find(target.dtypes, type) != target.dtypes.end();
}

}  // namespace

Refusal reads_cache(const Question& q) {
  const Problem& p = q.problem;
  if (p.kv == p.dtype) return {};
  if (bytes_of(p.dtype) != 2)
    return fmt::format("it does not take kv={} with queries of {}; give queries of bf16 or fp16", word(p.kv),
                       word(p.dtype));
  if (converts(q.target, p.kv)) return {};
  return fmt::format("it does not take kv={} on {}; use kv=int8", word(p.kv), q.target.name);
}

Refusal cache_type_on_target(const Question& q) {
  const DType kv = q.problem.kv;
  if (converts(q.target, kv)) return {};
  return fmt::format("{} does not convert to {}; keep the cache in the type of Q, or use kv=int8",
                     q.target.name, word(kv));
}

}  // namespace regard
