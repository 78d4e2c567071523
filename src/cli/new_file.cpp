#include "cli/new_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "cli/failure.h"
#include "cli/held_signals.h"

namespace regard::cli {
namespace {

constexpr std::size_t bytes_at_once = 16 << 20;  // between two checks for a signal

/// To the command, a full disk is also a file that cannot be written.
template <class T>
T written(Result<T> result) {
  if (!result) fail_with(result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace

NewFile::NewFile(std::string path, bool without_name)
    : path_(std::move(path)), file_(written(AtomicFile::make(path_, without_name))) {}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto next = bytes.first(std::min(bytes.size(), bytes_at_once));
    written(file_.write(next));
    if (HeldSignals::arrived()) fail_with("cannot write " + printable(path_) + ": " + std::strerror(EINTR));
    bytes = bytes.subspan(next.size());
  }
}

void NewFile::publish() {
  written(file_.publish());
}

}  // namespace regard::cli
