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
#include "base/fork_local.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "base/settings.h"
#include "base/write_file.h"

namespace regard {
namespace {

/// Of a file that is longer, what lies behind is not looked at; problems may then be in it twice, which does
/// no harm.
constexpr std::uint64_t most_read = 16 << 20;

std::size_t hash_of(std::string_view line) {
  return std::hash<std::string_view>{}(line);
}

/// The lines that are there; true where the last one has no end.
bool read_lines(const std::string& path, std::unordered_set<std::size_t>& lines) {
  const Result<RegularFile> file = RegularFile::open(path, Links::followed);
  if (!file) return false;
  std::string text(std::min(file->bytes(), most_read), '\0');
  if (!file->read(std::as_writable_bytes(std::span(text)))) return false;
  std::string_view rest = text;
  for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1))
    lines.insert(hash_of(rest.substr(0, end)));
  return !rest.empty() && text.size() == file->bytes();
}

/// Whether all of it could be written.
bool append(const std::string& path, std::string_view text) {
  const auto cannot = [&path](std::string_view why) {
    warn_once(fmt::format("REGARD_RECORD={}: problems are not recorded, as the file cannot be written: {}",
                          in_quotes(path), why));
    return false;
  };
  int opened;
  do {  // without waiting for a pipe's reader
    opened = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  } while (opened < 0 && errno == EINTR);
  const Descriptor file(opened);
  if (!file) return cannot(std::strerror(errno));
  struct stat status;
  if (fstat(file.number(), &status) != 0) return cannot(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return cannot("it is not a file");
  return write_all(file.number(), std::as_bytes(std::span(text))) || cannot(std::strerror(errno));
}

/// A forked child may find the mutex locked, so it begins anew.
ForkLocal<Recorder>& recorder = *new ForkLocal<Recorder>;

}  // namespace

void Recorder::add(const std::string& path, std::string_view line) {
  const std::lock_guard lock(mutex_);
  if (!has_read_) is_cut_off_ = read_lines(path, lines_);
  has_read_ = true;
  // One write, so that the lines of several processes do not mix. A line that a process has left unfinished
  // stays one by itself.
  const std::string text = fmt::format("{}{}\n", is_cut_off_ ? "\n" : "", line);
  if (lines_.insert(hash_of(line)).second) is_cut_off_ = !append(path, text);
}

void record(const Plan& plan) {
  const Result<Settings>& current = settings();
  if (!current || current->record.empty()) return;
  recorder.get().add(current->record, fmt::format("{} | {}", plan.target->name, print(plan.problem)));
}

}  // namespace regard
