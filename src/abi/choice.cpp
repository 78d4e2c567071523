#include <cmath>
#include <string>
#include <vector>

#include "abi/handles.h"
#include "engine/choice.h"
#include "engine/tuning.h"

using namespace regard;         // NOLINT: the C ABI's implementation
using namespace regard::c_api;  // NOLINT

namespace {

/// Wraps the caller's C function for plans.
Choose asking(regard_choice choose, void* context) {
  return [choose, context](const Problem& problem, const Target& target,
                           std::span<const Ranked> candidates) -> Result<std::string> {
    std::vector<const char*> names;
    std::vector<double> seconds;
    for (const Ranked& candidate : candidates) {
      names.push_back(candidate.candidate.c_str());
      seconds.push_back(candidate.seconds);
    }
    const regard_problem given{problem, print(problem), to_json(problem)};
    const char* const answer =
        choose(context, &given, target.name.c_str(), names.data(), seconds.data(), std::ssize(names));
    if (answer == nullptr) return std::string();
    if (answer[0] == '\0')
      return refused(fmt::format("the caller's own choice of kernels failed for '{}'", print(problem)));
    return std::string(answer);
  };
}

}  // namespace

regard_status regard_choose_by(regard_choice choose, void* context) {
  return guarded([&] {
    choose_by(choose == nullptr ? Choose() : asking(choose, context));
    return REGARD_OK;
  });
}

regard_status regard_use_tuning(const char* path) {
  return guarded([&] {
    const Status status = use_tuning(path == nullptr ? "" : path);
    return status ? REGARD_OK : report(status.error());
  });
}

regard_status regard_tuning_record(const regard_problem* problem, const regard_plan_options* options,
                                   const char* const* candidates, const double* seconds, int64_t count,
                                   char** record) {
  return guarded([&] {
    if (problem == nullptr) return report(null_argument("problem").value());
    if (candidates == nullptr) return report(null_argument("candidates").value());
    if (seconds == nullptr) return report(null_argument("seconds").value());
    if (record == nullptr) return report(null_argument("record").value());
    if (count < 1)
      return report(REGARD_INVALID, fmt::format("count is {}; a record needs at least one candidate", count));
    std::vector<MeasuredCandidate> measured;
    for (int64_t i = 0; i < count; ++i) {
      if (candidates[i] == nullptr) return report(null_argument(fmt::format("candidates[{}]", i)).value());
      if (!(seconds[i] > 0) || !std::isfinite(seconds[i]))
        return report(REGARD_INVALID,
                      fmt::format("seconds[{}] is {}; it must be positive and finite", i, seconds[i]));
      measured.push_back({candidates[i], seconds[i]});
    }
    const Result<EngineOptions> chosen = engine_options(options);
    if (!chosen) return report(chosen.error());
    const Result<PlanRequest> request = plan_request(problem->problem, *chosen);
    if (!request) return report(request.error());
    const Result<TuningRecord> made =
        make_record(problem->problem, *request->target, request->options.threads, measured);
    return made ? give(print(*made), record) : report(made.error());
  });
}
