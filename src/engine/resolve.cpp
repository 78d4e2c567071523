#include "engine/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "base/interruption.h"
#include "base/process_lifetime.h"
#include "base/settings.h"
#include "bundle/trusted_keys.h"
#include "engine/bundles.h"
#include "engine/counters.h"
#include "engine/machine.h"
#include "engine/remote_store.h"
#include "engine/tiers.h"
#include "plan/variant_text.h"
#include "problem/functions.h"

namespace regard {
namespace {

using Clock = std::chrono::steady_clock;

/// In the order in which they are asked.
constexpr Found (*tiers[])(Search&) = {find_in_first_bundle, find_built_in, find_in_bundles, find_cached,
                                       find_made};

Found find(Search& search) {
  for (const auto tier : tiers) {
    Found found = tier(search);
    if (!found || *found != nullptr) return found;
  }
  return tl::unexpected(search.failure());
}

std::atomic<std::int64_t>& counter_of(Tier tier) {
  switch (tier) {
    case Tier::built_in:
      return counters().built_in;
    case Tier::bundle:
      return counters().bundled;
    case Tier::cache:
      return counters().cached;
    case Tier::remote:
      return counters().remote;
    case Tier::compile:
      break;
  }
  return counters().compiled;
}

/// Asks the tiers; `goal`: its code, or only where it would come from.
Found search_for(const KernelKey& key, const Target& target, Search::Goal goal, bool& declarable) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  if (Status fits = check_remote(*current); !fits) return tl::unexpected(fits.error());
  Search search(key, target, *current, goal);
  Found found = find(search);
  declarable = !found && search.declarable;
  return found;
}

Found resolve_once(const KernelKey& key, bool& declarable) {
  const Result<const Target*> target = find_target(key.target);
  if (!target) return tl::unexpected(target.error());
  if ((*target)->on_cpu()) {  // GPU kernels can be prepared on a machine without a GPU
    if (Status status = runnable(**target); !status) return tl::unexpected(status.error());
  }
  Found found = search_for(key, **target, Search::Goal::code, declarable);
  ++(found ? counter_of((*found)->tier) : counters().failed);
  return found;
}

/// What was found, or not, and when to retry what failed for lack of memory, files or disk: at the next call,
/// and then less and less often, as a failing compile takes a while.
struct Slot {
  std::timed_mutex mutex;
  std::optional<Found> answer;
  bool declarable = false;
  int bundles = 0;  ///< added by the time of the search
  int scarce_answers = 0;
  Clock::time_point again;

  const Found& look(const KernelKey& key) {
    const bool keeps = answer && (!is_scarce(*answer) || Clock::now() < again);
    const bool may_be_there_now = answer && !*answer && bundles != added_bundles();
    if (keeps && !may_be_there_now) return *answer;
    const Clock::time_point start = Clock::now();
    bundles = added_bundles();
    answer = resolve_once(key, declarable);
    constexpr int longest = 100;  // times the duration of the search
    if (is_interrupted(*answer))
      again = start;
    else if (is_scarce(*answer))
      again = Clock::now() + std::min(scarce_answers++, longest) * (Clock::now() - start);
    return *answer;
  }
};

struct Slots {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Slot>, std::less<>> of_key;
};
ForkLocal<Slots>& process_slots = *new ForkLocal<Slots>;

}  // namespace

std::string_view word(Tier tier) {
  switch (tier) {
    case Tier::built_in:
      return "built-in";
    case Tier::bundle:
      return "bundle";
    case Tier::cache:
      return "cache";
    case Tier::remote:
      return "remote";
    case Tier::compile:
      return "compile";
  }
  return "?";
}

Counters& counters() {
  static constinit Counters all;
  return all;
}

Result<Cache*> process_cache() {
  const auto& cache = process_lifetime_unless_scarce<[]() -> Result<std::unique_ptr<Cache>> {
    const Result<Settings>& current = settings();
    if (!current) return tl::unexpected(current.error());
    Result<std::vector<PublicKey>> trusted = trusted_keys(*current);
    if (!trusted) return tl::unexpected(trusted.error());
    return std::make_unique<Cache>(default_cache_directory(), current->cache_bytes,
                                   static_cast<double>(current->lock_seconds), std::move(*trusted));
  }>();
  if (!cache) return tl::unexpected(cache.error());
  return cache->get();
}

Result<std::shared_ptr<const LoadedKernel>> resolve(const KernelKey& key, bool* declarable) {
  Slots& slots = process_slots.get();
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(slots.mutex);
    std::shared_ptr<Slot>& entry = slots.of_key[print(key)];
    if (!entry) entry = std::make_shared<Slot>();
    slot = entry;
  }
  const auto lock = lock_unless_interrupted(slot->mutex);
  if (!lock) return interruption();
  const Found& found = slot->look(key);
  if (declarable != nullptr) *declarable = slot->declarable;
  return found;
}

Result<std::shared_ptr<const LoadedKernel>> look_up(const KernelKey& key, bool* declarable) {
  const Result<const Target*> target = find_target(key.target);
  if (!target) return tl::unexpected(target.error());
  bool ignored = false;
  return search_for(key, **target, Search::Goal::location, declarable != nullptr ? *declarable : ignored);
}

std::string how_to_declare(const Plan& plan) {
  const Problem& given = given_problem(plan);
  const std::string line =
      has_function(given) ? fmt::format("problems = [\"{}\"]", print(given)) : as_variant(signature(given));
  return fmt::format("; in the manifest of a bundle for {}, a table [[variants]] with {} would add it",
                     plan.target->name, line);
}

}  // namespace regard
