// regard cache: the store of compiled kernels.
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/json_text.h"
#include "cli/text.h"
#include "cli/verbs.h"
#include "regard/regard.hpp"

namespace regard::cli {
namespace {

using Json = nlohmann::json;

std::string date(const Json& entry) {
  const std::time_t when = entry.value("used", std::time_t{0});
  std::tm local;
  if (localtime_r(&when, &local) == nullptr) return "-";  // a year beyond int
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return {text, size};
}

/// What the entry is, in the words of its manifest.
std::string kernel_of(const Json& entry) {
  const auto manifest = entry.find("manifest");
  if (manifest == entry.end() || !manifest->is_object()) return "";
  const std::string kernel = cell(*manifest, "kernel");
  return !kernel.empty() ? kernel : cell(*manifest, "file");  // of a compiler
}

std::string readable_entries(const Json& entries) {
  std::vector<std::vector<std::string>> rows = {{"key", "size", "used", "kernel"}};
  int damaged = 0;
  for (const Json& entry : entries) {
    const std::string problem = cell(entry, "problem");
    if (!problem.empty()) ++damaged;
    rows.push_back({cell(entry, "key").substr(0, 16), readable_bytes(entry.value("bytes", 0.0)), date(entry),
                    problem.empty() ? kernel_of(entry) : "DAMAGED: " + problem});
  }
  return table(rows) + fmt::format("{} entries{}\n", entries.size(),
                                   damaged == 0 ? "" : fmt::format(", {} damaged", damaged));
}

}  // namespace

Answer cache_verb(const Request& request) {
  const Json answer = Json::parse(regard::cache(request.words.front()));
  const bool damaged =
      request.words.front() == "verify" &&
      std::ranges::any_of(answer, [](const Json& entry) { return !cell(entry, "problem").empty(); });
  const std::string text = request.json        ? json_text(answer, 2) + "\n"
                           : answer.is_array() ? readable_entries(answer)
                                               : readable(answer);
  return {text, damaged ? exit_check_failed : exit_ok};
}

}  // namespace regard::cli
