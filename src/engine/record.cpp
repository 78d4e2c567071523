#include "engine/record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <span>

#include "base/descriptor.h"
#include "base/files.h"
#include "base/log.h"
#include "base/process_lifetime.h"
#include "base/settings.h"
#include "base/text.h"
#include "plan/record_line.h"

namespace regard {
namespace {

/// The rest of a longer file is not read; it may then contain problems twice, which does no harm.
constexpr std::uint64_t most_read = 16 << 20;

std::size_t hash_of(std::string_view line) {
  return std::hash<std::string_view>{}(line);
}

/// The lines that are in the file.
void read_lines(const std::string& path, std::unordered_set<std::size_t>& lines) {
  const Result<RegularFile> file = RegularFile::open(path, Links::followed);
  if (!file) return;
  std::string text(std::min(file->bytes(), most_read), '\0');
  if (!file->read(std::as_writable_bytes(std::span(text)))) return;
  std::string_view rest = text;
  for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1))
    lines.insert(hash_of(rest.substr(0, end)));
}

/// Also for reading, where that is allowed. Does not wait for a pipe's reader.
Descriptor open_to_append(const std::string& path) {
  int opened = -1;
  for (const int access : {O_RDWR, O_WRONLY}) {
    do {
      opened = open(path.c_str(), access | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    } while (opened < 0 && errno == EINTR);
    if (opened >= 0 || errno != EACCES) break;
  }
  return Descriptor(opened);
}

/// Whether a process seems to have ended while it wrote the last line; a line that is just being written may
/// look like that. Appended text then follows the complete line, and the mark is on its own line.
bool is_cut_off(const Descriptor& file, const struct stat& status) {
  char last = '\n';
  return status.st_size > 0 && pread(file.number(), &last, 1, status.st_size - 1) == 1 && last != '\n';
}

void append(const std::string& path, std::string_view line) {
  const auto cannot = [&path](std::string_view why) {
    warn_once(fmt::format("REGARD_RECORD={}: problems are not recorded, as the file cannot be written: {}",
                          in_quotes(path), why));
  };
  const Descriptor file = open_to_append(path);
  if (!file) return cannot(std::strerror(errno));
  struct stat status;
  if (fstat(file.number(), &status) != 0) return cannot(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return cannot("it is not a file");
  // One write, so that the lines of several processes do not mix.
  const std::string text =
      fmt::format("{}{}\n", is_cut_off(file, status) ? fmt::format("{}\n", end_of_cut_line) : "", line);
  if (!write_all(file.number(), std::as_bytes(std::span(text)))) cannot(std::strerror(errno));
}

/// A forked child may find the mutex locked, so it starts with a new recorder.
ForkLocal<Recorder>& recorder = *new ForkLocal<Recorder>;

}  // namespace

void Recorder::add(const std::string& path, std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (!has_read_) read_lines(path, lines_);
  has_read_ = true;
  if (lines_.insert(hash_of(line)).second) append(path, line);
}

void record(const Plan& plan) {
  const Result<Settings>& current = settings();
  if (!current || current->record.empty()) return;
  recorder.get().add(current->record,
                     fmt::format("{}{}{}", plan.target->name, bar_of_record, print(plan.problem)));
}

}  // namespace regard
