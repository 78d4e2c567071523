#include "cli/manifest_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "cli/failure.h"
#include "cli/json_text.h"
#include "cli/text.h"
#include "regard/regard.hpp"

namespace regard::cli {
namespace {

using Json = nlohmann::json;

void tell(const std::string& sentence) {
  std::fprintf(stderr, "regard: %s\n", printable(sentence).c_str());
}

std::vector<std::string> targets_of(const Json& manifest) {
  std::vector<std::string> names;
  for (const Json& target : manifest["targets"]) names.push_back(cell(target, "target"));
  return names;
}

/// Why a target does not run here; nothing where it does.
std::optional<std::string> why_not_here(const Json& info, const std::string& name) {
  for (const Json& target : info["targets"])
    if (cell(target, "name") == name && !target["runs_here"].get<bool>()) return cell(target, "why_not");
  return {};
}

std::vector<std::string> targets_here(const std::string& path, const std::vector<std::string>& all) {
  const Json info = json_of(regard::info());
  std::vector<std::string> here, left_out;
  for (const std::string& name : all) {
    if (const std::optional<std::string> why = why_not_here(info, name))
      left_out.push_back(fmt::format("{} of {} is left out: {}", name, path, *why));
    else
      here.push_back(name);
  }
  if (here.empty())
    throw error(REGARD_REFUSED, fmt::format("no target of {} runs here; {}", path, left_out.front()));
  std::ranges::for_each(left_out, tell);
  return here;
}

std::vector<std::string> chosen_targets(const std::string& path, const std::vector<std::string>& all,
                                        const std::vector<std::string>& requested) {
  if (requested.empty()) return targets_here(path, all);
  for (const std::string& name : requested) {
    if (std::ranges::find(all, name) == all.end())
      fail_with(fmt::format("{} is no target of {}, whose targets are {}", in_quotes(name), path,
                            fmt::join(all, ", ")));
  }
  return requested;
}

}  // namespace

std::vector<ManifestProblem> problems_of_manifest(const std::string& manifest,
                                                  const std::vector<std::string>& requested_targets) {
  BuildOptions options;
  options.only = 1;
  const Json answer = json_of(regard::build_manifest(manifest, options));
  const std::string path = printable(manifest);
  for (const Json& warning : answer["warnings"]) tell(warning.get<std::string>());
  std::vector<std::string> without_lengths;
  bool has_problems = false;
  for (const Json& table : answer["variants"]) {
    has_problems |= table.contains("problems");
    if (table.contains("problems")) continue;
    without_lengths.push_back(
        fmt::format("{}:{}: the signatures of this table ({}) have no batch, heads and lengths (b, h, s), so "
                    "they cannot be measured; name problems in a table with 'problems' or 'record'",
                    path, cell(table, "line"), cell(table, "what")));
  }
  if (!has_problems)
    fail_with(without_lengths.empty() ? path + " has no problems to measure" : without_lengths.front());
  std::ranges::for_each(without_lengths, tell);

  const std::vector<std::string> targets = chosen_targets(path, targets_of(answer), requested_targets);
  std::vector<ManifestProblem> problems;
  for (const Json& table : answer["variants"]) {
    if (!table.contains("problems")) continue;
    for (const Json& asked : table["problems"]) {
      for (const std::string& target : targets)
        if (!asked.contains("target") || asked["target"] == target)
          problems.push_back({cell(asked, "problem"), target});
    }
  }
  if (problems.empty()) fail_with(fmt::format("{} has no problems for {}", path, fmt::join(targets, ", ")));
  return problems;
}

}  // namespace regard::cli
