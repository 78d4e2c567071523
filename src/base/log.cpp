#include "base/log.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <span>
#include <string>

#include "base/files.h"
#include "base/process_lifetime.h"
#include "base/settings.h"
#include "base/text.h"

namespace regard {

bool log_enabled(std::string_view topic) {
  const Result<Settings>& current = settings();
  if (!current || current->log.empty()) return false;
  return std::ranges::any_of(current->log.items(),
                             [&](std::string_view item) { return item == topic || item == "all"; });
}

namespace {
// One write for a whole line, so that lines of several processes do not mix.
void print(std::string_view head, std::string_view text) {
  std::string line(head);
  line.append(": ").append(printable(text, Newlines::kept)).append("\n");
  write_all(STDERR_FILENO, std::as_bytes(std::span(line)));
}
void print_topic(std::string_view topic, std::string_view text) {
  print("regard " + std::string(topic), text);
}

struct Warnings {
  std::mutex mutex;
  std::set<std::string, std::less<>> seen;
};
ForkLocal<Warnings>& warnings = *new ForkLocal<Warnings>;
}  // namespace

void log_line(std::string_view topic, std::string_view text) {
  if (log_enabled(topic)) print_topic(topic, text);
}

bool heard(std::string_view topic) {
  return log_enabled(topic) || isatty(STDERR_FILENO) == 1;
}

void tell(std::string_view topic, std::string_view text) {
  if (heard(topic)) print_topic(topic, printable(text));
}

void warn_once(std::string_view text) {
  Warnings& process = warnings.get();
  const std::lock_guard lock(process.mutex);
  if (!process.seen.emplace(text).second) return;
  print("regard", text);
}

}  // namespace regard
