#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/scarce.h"

namespace regard {
namespace {

tl::unexpected<Error> unreadable(int error) {
  return fail(kind_of(error, ErrorKind::invalid), std::strerror(error));
}

int open_to_read(const std::string& path) {
  int file;
  do {
    file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (file < 0 && errno == EINTR);
  return file;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t most) {
  const Descriptor file(open_to_read(path));
  struct stat status;
  if (!file || fstat(file.number(), &status) != 0) return unreadable(errno);
  if (S_ISDIR(status.st_mode)) return invalid("it is a folder");
  if (!S_ISREG(status.st_mode)) return invalid("it is not a file");
  // The size is only a hint: those of the system's own files say 0.
  std::string text;
  char block[4096];
  while (true) {
    const ssize_t count = read(file.number(), block, std::min(sizeof block, most + 1 - text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unreadable(errno);
    if (count == 0) return text;
    text.append(block, static_cast<std::size_t>(count));
    if (text.size() > most) return invalid("it is longer than " + std::to_string(most) + " bytes");
  }
}

}  // namespace regard
