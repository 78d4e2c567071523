// regard cache: the store of compiled kernels.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/failure.h"
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

/// Describes the entry in the words of its manifest.
std::string kernel_of(const Json& entry) {
  const auto manifest = entry.find("manifest");
  if (manifest == entry.end() || !manifest->is_object()) return "";
  const std::string kernel = cell(*manifest, "kernel");
  return !kernel.empty() ? kernel : cell(*manifest, "file");  // a compiler's
}

/// How many entries have a non-empty value of that name.
std::int64_t count(const Json& entries, const char* name) {
  return std::ranges::count_if(entries, [name](const Json& entry) { return !cell(entry, name).empty(); });
}

/// The beginning of a long text, and how much is left out: a kernel's name has a few dozen words.
std::string cut(const std::string& text) {
  constexpr std::size_t most = 400;
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // inside a character
  return fmt::format("{}... ({} more bytes)", text.substr(0, end), text.size() - end);
}

std::string readable_entries(const Json& entries) {
  std::vector<std::vector<std::string>> rows = {{"key", "size", "used", "kernel"}};
  for (const Json& entry : entries) {
    const std::string problem = cell(entry, "problem"), unread = cell(entry, "unread");
    rows.push_back({cell(entry, "key").substr(0, 16), readable_bytes(entry.value("bytes", 0.0)), date(entry),
                    cut(!problem.empty()  ? "DAMAGED: " + problem
                        : !unread.empty() ? "NOT READ: " + unread
                                          : kernel_of(entry))});
  }
  const std::int64_t damaged = count(entries, "problem"), unread = count(entries, "unread");
  return table(rows) + fmt::format("{} entries{}{}\n", entries.size(),
                                   damaged == 0 ? "" : fmt::format(", {} damaged", damaged),
                                   unread == 0 ? "" : fmt::format(", {} not read", unread));
}

/// export FILE, import FILE.
Answer exchange(const Request& request) {
  const std::string& verb = request.words.front();
  if (request.paths.size() != 1)
    fail_with(fmt::format("cache {0} takes one file, the bundle: regard cache {0} kernels.bundle", verb));
  const std::string& bundle = request.paths.front();
  const Json answer = json_of(verb == "export" ? regard::export_cache(bundle) : regard::import_cache(bundle));
  const bool damaged =
      std::ranges::any_of(answer["left_out"], [](const Json& one) { return one["damaged"].get<bool>(); });
  const int exit_code = damaged ? exit_check_failed : exit_ok;
  if (request.json) return {json_text(answer, 2) + "\n", exit_code};
  std::string text;
  for (const Json& one : answer["left_out"])
    text += fmt::format("left out: {}: {}\n", cell(one, "kernel"), cell(one, "why"));
  return {text + fmt::format("{} kernels {} {}\n", cell(answer, "kernels"),
                             verb == "export" ? "written to" : "taken from", printable(bundle)),
          exit_code};
}

}  // namespace

Answer cache_verb(const Request& request) {
  const std::string& verb = request.words.front();
  if (verb == "export" || verb == "import") return exchange(request);
  if (!request.paths.empty())
    fail_with(fmt::format("cache {} takes no file; {} is one word too many", verb,
                          in_quotes(request.paths.front())));
  const Json answer = json_of(regard::cache(request.words.front()));
  const bool verifies = request.words.front() == "verify";
  const int exit_code = verifies && count(answer, "problem") > 0  ? exit_check_failed
                        : verifies && count(answer, "unread") > 0 ? exit_internal
                                                                  : exit_ok;
  const std::string text = request.json        ? json_text(answer, 2) + "\n"
                           : answer.is_array() ? readable_entries(answer)
                                               : readable(answer);
  return {text, exit_code};
}

}  // namespace regard::cli
