#include "cli/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/held_signals.h"
#include "cli/json_text.h"
#include "cli/timing.h"

namespace regard::cli {
namespace {

using Json = nlohmann::json;

/// The copies together are larger than caches. Small tensors have fewer copies than that takes, as they stay
/// in a cache in practice.
constexpr std::int64_t cold_bytes = std::int64_t{256} << 20;
constexpr std::int64_t most_copies = 64;

/// A multiple of the cost model's lowest estimate: its errors are smaller than that.
constexpr double not_worth_measuring = 10;

}  // namespace

std::vector<std::string> worth_measuring(const Json& explanation) {
  std::vector<std::pair<double, std::string>> accepted;
  const auto add = [&accepted](const Json& one) {
    accepted.emplace_back(one.at("seconds").get<double>(), one.at("candidate").get<std::string>());
  };
  for (const Json& verdict : explanation.at("verdicts"))
    if (verdict.at("accepted").get<bool>()) add(verdict);
  if (accepted.empty())
    throw error(REGARD_REFUSED, explanation.value("refusal", "nothing computes the problem"));
  if (explanation.contains("variants")) std::ranges::for_each(explanation.at("variants"), add);
  std::ranges::sort(accepted);
  const double most = accepted.front().first * not_worth_measuring;
  std::vector<std::string> names{explanation.at("by_cost").get<std::string>()};
  for (const auto& [seconds, name] : accepted)
    if (name != names.front() && seconds <= most) names.push_back(name);
  return names;
}

Json explained(const Problem& problem, const regard::Options& where) {
  return json_of(regard::explain(problem, where, "json"));
}

Candidates::Candidates(const Problem& problem, const Request& request, const regard::Options& where)
    : Candidates(problem, request, where, worth_measuring(explained(problem, where))) {}

Candidates::Candidates(const Problem& problem, const Request& request, const regard::Options& where,
                       const std::vector<std::string>& names)
    : job_(problem, request, {where.target, names.front(), where.threads}, ForwardOn::same_target) {
  for (const std::string& name : names) {
    if (HeldSignals::arrived()) return;
    try {
      auto plan = std::make_unique<Plan>(job_.problem, regard::Options{where.target, name, where.threads});
      const HeldSignals held;
      plan->prepare();
      auto workspace = std::make_unique<Workspace>(*plan);
      all_.push_back({name, std::move(plan), std::move(workspace)});
    } catch (const error& refused) {
      if (refused.status() != REGARD_REFUSED && refused.status() != REGARD_NO_KERNEL) throw;
      std::fprintf(stderr, "regard: %s is left out: %s\n", name.c_str(), printable(refused.what()).c_str());
    }
  }
  const std::int64_t copies =
      std::clamp<std::int64_t>(cold_bytes / std::max<std::int64_t>(job_.tensors.bytes(), 1), 1, most_copies);
  for (std::int64_t i = 0; i < copies; ++i)
    copies_.push_back(std::make_unique<OnTarget>(job_.tensors, job_.plan, true));
  for (std::size_t i = 0; i < size() && !HeldSignals::arrived(); ++i) {
    measure(i);  // the first call loads the kernel
    all_[i].calls = calls_per_sample(measure(i));
  }
}

double Candidates::measure(std::size_t i) {
  const One& one = all_[i];
  const double sum = milliseconds([&] {
    for (int call = 0; call < one.calls; ++call) {
      const OnTarget& there = *copies_[next_copy_++ % copies_.size()];
      one.plan->run(there.arguments(), one.workspace->data(), one.workspace->bytes());
    }
    copies_.front()->wait();
  });
  return sum / one.calls;
}

}  // namespace regard::cli
