// regard info: machine, targets, compiler, settings, counters.
#include <nlohmann/json.hpp>

#include "cli/json_text.h"
#include "cli/text.h"
#include "cli/verbs.h"
#include "regard/regard.hpp"

namespace regard::cli {

Answer info_verb(const Request& request) {
  const nlohmann::json about = json_of(regard::info());
  return {request.json ? json_text(about, 2) + "\n" : readable(about)};
}

}  // namespace regard::cli
