// One function and one file per verb. Each gives what goes to standard output and the exit code; a failure is
// a regard::error.
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
Answer explain_verb(const Request&);
Answer list_verb(const Request&);
Answer build_verb(const Request&);
Answer prebuild_verb(const Request&);
Answer cache_verb(const Request&);
Answer bundle_verb(const Request&);
Answer info_verb(const Request&);
Answer help_verb(const Request&);
Answer completion_verb(const Request&);

/// The verb that was asked for.
Answer dispatch(const Request&);

}  // namespace regard::cli
