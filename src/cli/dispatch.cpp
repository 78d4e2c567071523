#include <algorithm>

#include "cli/failure.h"
#include "cli/verbs.h"

namespace regard::cli {

Answer dispatch(const Request& request) {
  static constexpr struct {
    const char* verb;
    Answer (*answer)(const Request&);
  } verbs[] = {
      {"run", run_verb},           {"bench", bench_verb},
      {"tune", tune_verb},         {"explain", explain_verb},
      {"list", list_verb},         {"rerun", rerun_verb},
      {"report", report_verb},     {"build", build_verb},
      {"prebuild", prebuild_verb}, {"cache", cache_verb},
      {"bundle", bundle_verb},     {"info", info_verb},
      {"help", help_verb},         {"completion", completion_verb},
  };
  const auto* found = std::ranges::find_if(verbs, [&](const auto& row) { return request.verb == row.verb; });
  if (found == std::end(verbs))
    throw error(REGARD_INTERNAL, "the verb " + request.verb + " is declared but has no code");
  return found->answer(request);
}

}  // namespace regard::cli
