#include "base/write_file.h"

#include <unistd.h>

#include <cerrno>

#include "base/no_signals.h"

namespace regard {

bool write_all(int file, std::span<const std::byte> bytes) {
  const NoSignals guard;
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace regard
