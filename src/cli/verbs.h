// One function and one file per verb. Each returns what to print to standard output and the exit code; a
// failure is a regard::error.
#pragma once

#include <string>

#include "cli/request.h"

namespace regard::cli {

struct Answer {
  std::string text;
  int exit_code = exit_ok;
};

Answer run_verb(const Request&);
Answer bench_verb(const Request&);
Answer tune_verb(const Request&);
Answer explain_verb(const Request&);
Answer list_verb(const Request&);
Answer rerun_verb(const Request&);
Answer report_verb(const Request&);
Answer build_verb(const Request&);
Answer prebuild_verb(const Request&);
Answer cache_verb(const Request&);
Answer bundle_verb(const Request&);
Answer info_verb(const Request&);
Answer help_verb(const Request&);
Answer completion_verb(const Request&);

/// Calls the requested verb.
Answer dispatch(const Request&);

}  // namespace regard::cli
