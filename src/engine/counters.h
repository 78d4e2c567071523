// How many kernels came from each tier, how many plans were remembered, and so on; shown by `regard info`.
#pragma once

#include <atomic>
#include <cstdint>

namespace regard {

// X(name, documentation)
#define REGARD_COUNTERS(X)                                            \
  X(plans, "problems planned")                                        \
  X(plan_hits, "plans found in the plan cache")                       \
  X(built_in, "kernels taken from the library")                       \
  X(bundled, "kernels taken from bundles")                            \
  X(cached, "kernels loaded from the cache")                          \
  X(remote, "kernels fetched from the remote store")                  \
  X(compiled, "kernels compiled")                                     \
  X(failed, "kernels that were not found anywhere")                   \
  X(fallbacks, "plans that fell back to generic or portable kernels") \
  X(runs, "plans run")

struct Counters {
#define REGARD_MEMBER(name, doc) std::atomic<std::int64_t> name{0};
  REGARD_COUNTERS(REGARD_MEMBER)
#undef REGARD_MEMBER
};

Counters& counters();

}  // namespace regard
