#include "base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/result.h"
#include "base/text.h"

namespace regard {
namespace {

constexpr int attempts = 100;  // to find an unused name

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
}

std::string nearest_folder(const std::string& path) {
  std::string folder = folder_of(path);
  struct stat status;
  while (folder != "/" && folder != "." && stat(folder.c_str(), &status) != 0) folder = folder_of(folder);
  return folder;
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Whether this process writes its output into that file: output after the replacement would be lost.
bool is_own_output(const struct stat& file) {
  struct stat status;
  const auto is_there = [&](int stream) { return fstat(stream, &status) == 0 && is_same_file(status, file); };
  return is_there(STDOUT_FILENO) || is_there(STDERR_FILENO);
}

/// Calls make(name) with names in the folder until one is unused; gives that name, or nothing with errno set.
template <class Make>
std::string new_name(const std::string& folder, const Make& make) {
  for (int i = 0; i < attempts; ++i) {
    std::string name = fmt::format("{}/.regard.{}.{}.part", folder, getpid(), i);
    if (make(name)) return name;
    if (errno != EEXIST) break;
  }
  return "";
}

std::string unnamed(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.number());
}

}  // namespace

Result<AtomicFile> AtomicFile::make(const std::string& path, bool without_name) {
  AtomicFile made(path);
  if (Status found = made.find_target(); !found) return tl::unexpected(found.error());
  made.folder_ = nearest_folder(made.target_);
  const mode_t permissions = made.permissions_.value_or(0666);  // never more than the final ones
  if (without_name)
    made.file_ = Descriptor(open(made.folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, permissions));
  if (made.file_ && access(unnamed(made.file_).c_str(), F_OK) != 0) made.file_ = Descriptor();  // no /proc
  if (made.file_) return made;
  made.name_ = new_name(made.folder_, [&](const std::string& name) {
    made.file_ = Descriptor(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions));
    return static_cast<bool>(made.file_);
  });
  if (!made.file_) return made.cannot(errno);
  return made;
}

/// A link stands for its file. Anything other than a file is left as it is: a device that is replaced is gone
/// for every program.
Status AtomicFile::find_target() {
  const auto refused = [this](const char* why) {
    return invalid(fmt::format("cannot write {}: {}", printable(path_), why));
  };
  target_ = path_;
  struct stat status, target;
  if (stat(path_.c_str(), &status) != 0) {
    const int error = errno;
    if (lstat(path_.c_str(), &target) != 0) return {};
    return error == ENOENT ? refused("it is a dangling link") : cannot(error);
  }
  if (S_ISDIR(status.st_mode)) return cannot(EISDIR);
  if (!S_ISREG(status.st_mode)) return refused("it is not a file");
  if (is_own_output(status)) return refused("this process prints to it");
  permissions_ = status.st_mode & 0777;
  target_ = real_path(path_);
  const bool has_name = lstat(target_.c_str(), &target) == 0 && is_same_file(target, status);
  return has_name ? Status() : refused("it is a link to a file without a name");
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      permissions_(other.permissions_),
      folder_(std::move(other.folder_)),
      name_(std::exchange(other.name_, "")),
      file_(std::move(other.file_)) {}

AtomicFile::~AtomicFile() {
  if (!name_.empty()) unlink(name_.c_str());
}

tl::unexpected<Error> AtomicFile::cannot(int error) const {
  return regard::fail(kind_of(error, ErrorKind::invalid),
                      fmt::format("cannot write {}: {}", printable(path_), std::strerror(error)));
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  if (!write_all(file_.number(), bytes)) return cannot(errno);
  return {};
}

Status AtomicFile::write_first(std::span<const std::byte> bytes) {
  if (lseek(file_.number(), 0, SEEK_SET) != 0) return cannot(errno);
  return write(bytes);
}

Status AtomicFile::sync() {
  if (fsync(file_.number()) != 0) return cannot(errno);
  return {};
}

Status AtomicFile::publish() {
  if (const int error = make_folders(folder_of(target_)); error != 0) return cannot(error);
  if (Status kept = keep_permissions(); !kept) return kept;
  if (name_.empty()) {
    if (Status linked = link(); !linked) return linked;
  }
  // Some file systems report only now that they are full.
  if (close(file_.release()) != 0) return cannot(errno);
  if (name_.empty()) return {};
  if (std::rename(name_.c_str(), target_.c_str()) != 0) return cannot(errno);
  name_.clear();
  return {};
}

Status AtomicFile::keep_permissions() {
  if (!permissions_) return {};
  struct stat status;
  if (fstat(file_.number(), &status) != 0) return cannot(errno);
  // Some file systems have no other permissions, and cannot change them.
  if ((status.st_mode & 0777) == *permissions_) return {};
  if (fchmod(file_.number(), *permissions_) != 0) return cannot(errno);
  return {};
}

/// Under its own name, or, where that is taken, under another one, from which it is renamed.
Status AtomicFile::link() {
  const auto link_as = [&](const std::string& name) {
    return linkat(AT_FDCWD, unnamed(file_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link_as(target_)) return {};
  if (errno == EEXIST) name_ = new_name(folder_, link_as);
  if (name_.empty()) return cannot(errno);
  return {};
}

Status write_atomic_file(const std::string& path, std::string_view text) {
  Result<AtomicFile> file = AtomicFile::make(path);
  if (!file) return tl::unexpected(file.error());
  if (Status status = file->write(std::as_bytes(std::span(text))); !status) return status;
  return file->publish();
}

}  // namespace regard
