// regard list: kernels by target, profile and tier.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/nearest.h"
#include "base/text.h"
#include "cli/failure.h"
#include "cli/json_text.h"
#include "cli/text.h"
#include "cli/verbs.h"

namespace regard::cli {

using Json = nlohmann::json;

Answer list_verb(const Request& request) {
  if (request.tier == "remote")
    fail_with("what a remote store has cannot be listed: it is asked for one kernel at a time; use " +
              fmt::format("{}", fmt::join(listed_tiers, ", ")));
  if (!request.tier.empty() && std::ranges::find(listed_tiers, request.tier) == std::end(listed_tiers)) {
    fail_with(
        fmt::format("unknown tier {}{}", in_quotes(request.tier), suggestion(request.tier, listed_tiers)));
  }
  Json kernels = Json::array();
  for (const Json& row :
       json_of(regard::list(request.targets.empty() ? "" : request.targets[0], request.profile))) {
    if (request.tier.empty() || cell(row, "tier") == request.tier) kernels.push_back(row);
  }
  if (request.json) return {json_text(kernels, 2) + "\n"};

  const bool of_gpu = std::ranges::any_of(kernels, [](const Json& row) { return row.contains("resources"); });
  std::vector<std::vector<std::string>> rows;
  if (of_gpu) rows.push_back({"tier", "registers", "spilled", "stack", "shared", "kernel"});
  std::map<std::string, int> counts;
  for (const Json& row : kernels) {
    std::vector<std::string>& cells = rows.emplace_back(1, cell(row, "tier"));
    const Json used = row.value("resources", Json::object());
    for (const char* name : {"registers", "spill_bytes", "stack_bytes", "shared_bytes"}) {
      if (of_gpu) cells.push_back(cell(used, name));
    }
    cells.push_back(cell(row, "kernel"));
    ++counts[cell(row, "tier")];
  }
  std::string text = table(rows) + fmt::format("{} kernels", kernels.size());
  for (const auto& [tier, count] : counts) text += fmt::format(", {} {}", count, tier);
  return {text + "\n"};
}

}  // namespace regard::cli
