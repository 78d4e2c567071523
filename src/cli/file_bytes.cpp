#include "cli/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/printable.h"
#include "cli/failure.h"

namespace regard::cli {

FileBytes::FileBytes(std::string path)
    : path_(std::move(path)),
      file_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // does not wait for a FIFO's writer
  struct stat about{};
  if (file_ < 0 || fstat(file_, &about) != 0) fail(std::strerror(errno));
  if (!S_ISREG(about.st_mode)) fail("it is not a file");
  size_ = static_cast<std::size_t>(about.st_size);
  if (size_ == 0) return;
  // Pages that are never written take no memory. Not the file itself, which another process may cut.
  void* const memory =
      mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail(std::strerror(errno));
  memory_ = static_cast<std::byte*>(memory);
}

FileBytes::~FileBytes() {
  if (memory_ != nullptr) munmap(memory_, size_);
  close(file_);
}

void FileBytes::read(std::span<const std::byte> part) {
  const auto begin = static_cast<std::size_t>(part.data() - memory_);
  for (std::size_t done = 0; done < part.size();) {
    const ssize_t count =
        pread(file_, memory_ + begin + done, part.size() - done, static_cast<off_t>(begin + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(std::strerror(errno));
    if (count == 0) fail("it ended early");
    done += static_cast<std::size_t>(count);
  }
}

void FileBytes::fail(const char* why) const {
  fail_with(fmt::format("cannot read {}: {}", printable(path_), why));
}

}  // namespace regard::cli
