#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "base/fork_local.h"
#include "base/settings.h"
#include "base/split.h"

namespace regard {

bool log_enabled(std::string_view topic) {
  const Result<Settings>& current = settings();
  if (!current || current->log.empty()) return false;
  return std::ranges::any_of(split(current->log, ","),
                             [&](std::string_view item) { return item == topic || item == "all"; });
}

namespace {
void print(std::string_view topic, std::string_view text) {
  std::fprintf(stderr, "regard %.*s: %.*s\n", static_cast<int>(topic.size()), topic.data(),
               static_cast<int>(text.size()), text.data());
}

struct Warnings {
  std::mutex mutex;
  std::set<std::string, std::less<>> seen;
};
ForkLocal<Warnings>& warnings = *new ForkLocal<Warnings>;
}  // namespace

void log_line(std::string_view topic, std::string_view text) {
  if (log_enabled(topic)) print(topic, text);
}

void tell(std::string_view topic, std::string_view text) {
  if (log_enabled(topic) || isatty(STDERR_FILENO) == 1) print(topic, text);
}

void warn_once(std::string_view text) {
  Warnings& process = warnings.get();
  const std::lock_guard lock(process.mutex);
  if (!process.seen.emplace(text).second) return;
  std::fprintf(stderr, "regard: %.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace regard
