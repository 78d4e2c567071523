// regard explain: every candidate with its verdict.
#include "cli/job.h"
#include "cli/verbs.h"
#include "regard/regard.hpp"

namespace regard::cli {

Answer explain_verb(const Request& request) {
  const regard::Options where{request.targets.empty() ? "" : request.targets.front(),
                              request.families.empty() ? "" : request.families.front(), request.threads,
                              request.functions};
  std::string text = explain(parse_problem(request.words), where,
                             request.json  ? "json"
                             : request.all ? "all"
                                           : "text");
  if (!text.ends_with('\n')) text += '\n';
  return {std::move(text)};
}

}  // namespace regard::cli
