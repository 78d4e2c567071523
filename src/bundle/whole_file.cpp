#include "bundle/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/printable.h"
#include "base/scarce.h"
#include "base/temporary.h"
#include "base/write_file.h"

namespace regard::bundle {
namespace {

constexpr int attempts = 100;  // at a name that nobody has

tl::unexpected<Error> cannot_write(const std::string& path, const std::string& why, ErrorKind kind) {
  return fail(kind, fmt::format("cannot write {}: {}", in_quotes(path), why));
}

std::string without_links(const std::string& path) {
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  const std::unique_ptr<char, Free> place(realpath(path.c_str(), nullptr));
  return place ? place.get() : path;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace

Result<WholeFile> WholeFile::make(const std::string& path) {
  WholeFile made(path, without_links(path));
  struct stat status;
  const bool there = stat(made.place_.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode)) return cannot_write(path, "it is not a file", ErrorKind::invalid);
  const mode_t permissions = there ? status.st_mode & 0777 : 0666;
  for (int attempt = 0; attempt < attempts && !made.file_; ++attempt) {
    std::string name = fmt::format("{}.{}.{}.tmp", made.place_, getpid(), attempt);
    made.file_ = Descriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions));
    if (made.file_) made.name_ = std::move(name);
    if (!made.file_ && errno != EEXIST) break;
  }
  if (!made.file_) return made.cannot(errno);
  mark_in_use(made.file_.number());
  if (there && fchmod(made.file_.number(), permissions) != 0) return made.cannot(errno);
  return made;
}

WholeFile::WholeFile(WholeFile&& other) noexcept
    : path_(std::move(other.path_)),
      place_(std::move(other.place_)),
      name_(std::exchange(other.name_, "")),
      file_(std::move(other.file_)) {}

WholeFile::~WholeFile() {
  if (!name_.empty()) unlink(name_.c_str());
}

tl::unexpected<Error> WholeFile::cannot(int error) const {
  return cannot_write(path_, std::strerror(error), kind_of(error, ErrorKind::invalid));
}

Status WholeFile::write(std::span<const std::byte> bytes) {
  if (!write_all(file_.number(), bytes)) return cannot(errno);
  return {};
}

Status WholeFile::write_first(std::span<const std::byte> bytes) {
  if (lseek(file_.number(), 0, SEEK_SET) != 0) return cannot(errno);
  return write(bytes);
}

Status WholeFile::publish() {
  if (fsync(file_.number()) != 0) return cannot(errno);
  // A server says only when it is closed that its disk is full.
  if (close(file_.release()) != 0) return cannot(errno);
  if (std::rename(name_.c_str(), place_.c_str()) != 0) return cannot(errno);
  name_.clear();
  const Descriptor folder(::open(folder_of(place_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder)
    fsync(folder.number());  // some file systems cannot; the file is whole or the old one either way
  return {};
}

}  // namespace regard::bundle
