// Problems seen before: a fixed open-addressing table of immutable entries behind atomic pointers. Entries
// are added, never changed or freed, so a reader needs no lock; a full neighbourhood means planning again,
// which is still correct.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

#include "base/log.h"
#include "engine/choice.h"
#include "engine/counters.h"
#include "engine/machine.h"
#include "engine/prepared.h"
#include "engine/record.h"
#include "plan/fallback.h"

namespace regard {
namespace {

struct Entry {
  std::size_t hash;
  Problem problem;
  std::string target, family, functions;
  int threads;
  int changes;  ///< choice_changes() when it was made
  SharedPlan plan;

  bool matches(std::size_t other_hash, const Problem& other, const EngineOptions& options, int now) const {
    return hash == other_hash && changes == now && threads == options.threads && target == options.target &&
           family == options.family && functions == options.functions && problem == other;
  }
};

constexpr std::size_t slots = 4096;
constexpr std::size_t probes = 16;
std::array<std::atomic<const Entry*>, slots> table;

std::size_t hash_of(const Problem& problem, const EngineOptions& options, int changes) {
  std::size_t value = hash(problem);
  const auto mix = [&value](std::size_t more) { value = (value ^ more) * 0x9E3779B97F4A7C15ull; };
  mix(std::hash<std::string_view>{}(options.target));
  mix(std::hash<std::string_view>{}(options.family));
  mix(std::hash<std::string_view>{}(options.functions));
  mix(static_cast<std::size_t>(options.threads));
  mix(static_cast<std::size_t>(changes));
  return value;
}

/// "fwd fp32 ... on cpu-avx2: decode + combine".
std::string summary(const Plan& plan) {
  std::string stages;
  for (const Stage& stage : plan.stages) stages += (stages.empty() ? "" : " + ") + stage.key.algorithm.kernel;
  return fmt::format("{} on {}: {}", print(plan.problem), plan.target->name, stages);
}

Result<SharedPlan> make(const Problem& problem, const EngineOptions& options) {
  const Result<PlanRequest> request = plan_request(problem, options);
  if (!request) return tl::unexpected(request.error());
  Result<Plan> best = plan(problem, *request->target, request->options);
  if (!best) return tl::unexpected(best.error());
  std::optional<Plan> fallback = fallback_of(*best, request->options);
  ++counters().plans;
  record(*best);
  if (log_enabled("plan")) log_line("plan", summary(*best));
  return SharedPlan(new PreparedPlan(std::move(*best), std::move(fallback)));
}

}  // namespace

Result<SharedPlan> prepared_plan(const Problem& problem, const EngineOptions& given) {
  EngineOptions options = given;
  // The target that a kind of GPU stands for depends on the thread's device.
  if (const gpu::Backend* backend = gpu::find_backend(options.target)) {
    const Result<const Target*> target = best_gpu_target(*backend);
    if (!target) return tl::unexpected(target.error());
    options.target = (*target)->name;
  }
  const int changes = choice_changes();
  const std::size_t key = hash_of(problem, options, changes);
  for (std::size_t probe = 0; probe < probes; ++probe) {
    const Entry* entry = table[(key + probe) % slots].load(std::memory_order_acquire);
    if (entry == nullptr) break;
    if (entry->matches(key, problem, options, changes)) {
      ++counters().plan_hits;
      return entry->plan;
    }
  }

  Result<SharedPlan> made = make(problem, options);
  // A plan for all cores is not kept while their number is not known.
  if (!made || (options.threads == 0 && !cores_are_known())) return made;
  auto entry =
      std::make_unique<Entry>(Entry{key, problem, std::string(options.target), std::string(options.family),
                                    std::string(options.functions), options.threads, changes, *made});
  for (std::size_t probe = 0; probe < probes; ++probe) {
    std::atomic<const Entry*>& slot = table[(key + probe) % slots];
    const Entry* expected = nullptr;
    if (slot.compare_exchange_strong(expected, entry.get(), std::memory_order_acq_rel)) {
      entry.release();
      return made;
    }
    if (expected->matches(key, problem, options, changes)) return expected->plan;  // another thread was first
  }
  return made;
}

}  // namespace regard
