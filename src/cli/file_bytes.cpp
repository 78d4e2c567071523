#include "cli/file_bytes.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "cli/failure.h"

namespace regard::cli {

FileBytes::FileBytes(std::string path)
    : path_(std::move(path)),
      file_(value_of(RegularFile::open(path_, Links::followed), "cannot read " + path_)),
      size_(static_cast<std::size_t>(file_.bytes())) {
  if (size_ == 0) return;
  // Pages that are never written take no memory. The file itself is not mapped, as another process could
  // truncate it.
  void* const memory =
      mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail(errno);
  memory_ = static_cast<std::byte*>(memory);
}

FileBytes::~FileBytes() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

void FileBytes::read(std::span<const std::byte> part) {
  const auto begin = static_cast<std::size_t>(part.data() - memory_);
  for (std::size_t done = 0; done < part.size();) {
    const ssize_t count = pread(file_.descriptor(), memory_ + begin + done, part.size() - done,
                                static_cast<off_t>(begin + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    if (count == 0) fail_with(fmt::format("cannot read {}: it ended early", printable(path_)));
    done += static_cast<std::size_t>(count);
  }
}

void FileBytes::fail(int error) const {
  throw regard::error(static_cast<regard_status>(kind_of(error, ErrorKind::invalid)),
                      fmt::format("cannot read {}: {}", printable(path_), std::strerror(error)));
}

}  // namespace regard::cli
