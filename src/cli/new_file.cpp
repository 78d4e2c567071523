#include "cli/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/printable.h"
#include "cli/failure.h"
#include "cli/held_signals.h"

namespace regard::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t bytes_at_once = 16 << 20;  // between two looks for a signal
constexpr int attempts = 100;                    // at a name that nobody has

std::string nearest_folder(const std::string& path) {
  std::error_code ignored;
  fs::path folder = fs::path(path).parent_path();
  while (!folder.empty() && !fs::exists(folder, ignored)) {
    const fs::path above = folder.parent_path();
    folder = above == folder ? fs::path() : above;
  }
  return folder.empty() ? "." : folder.string();
}

/// What is written when something is written to the path: a link to a file stands for the file. Others do
/// not, as nobody wants a device to be replaced.
std::string behind_links(const std::string& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) return path;
  const fs::path place = fs::canonical(path, failed);
  return failed ? path : place.string();
}

std::optional<mode_t> permissions_of_file(const std::string& path) {
  struct stat about{};
  if (stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  return about.st_mode & 0777;
}

/// Calls make(name) with names in the folder until one is new; gives that one, or nothing with errno set.
template <class Make>
std::string new_name(const std::string& folder, const Make& make) {
  for (int i = 0; i < attempts; ++i) {
    std::string name = fmt::format("{}/.regard.{}.{}.part", folder, getpid(), i);
    if (make(name)) return name;
    if (errno != EEXIST) break;
  }
  return "";
}

std::string unnamed(int file) {
  return fmt::format("/proc/self/fd/{}", file);
}

}  // namespace

NewFile::NewFile(std::string path, bool without_name)
    : path_(std::move(path)),
      place_(behind_links(path_)),
      permissions_(permissions_of_file(place_)),
      folder_(nearest_folder(place_)),
      file_(-1) {
  const mode_t permissions = permissions_.value_or(0666);  // never more than they will be
  if (without_name) file_ = open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, permissions);
  if (file_ >= 0 && access(unnamed(file_).c_str(), F_OK) != 0)
    close(std::exchange(file_, -1));  // it has no /proc
  if (file_ >= 0) return;
  name_ = new_name(folder_, [&](const std::string& name) {
    file_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions);
    return file_ >= 0;
  });
  if (file_ < 0) fail(errno);
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      place_(std::move(other.place_)),
      permissions_(other.permissions_),
      folder_(std::move(other.folder_)),
      name_(std::exchange(other.name_, "")),
      file_(std::exchange(other.file_, -1)) {}

NewFile::~NewFile() {
  if (file_ >= 0) close(file_);
  if (!name_.empty()) unlink(name_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), std::min(bytes.size(), bytes_at_once));
    if (HeldSignals::arrived()) fail(EINTR);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written == 0 ? ENOSPC : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void NewFile::publish() {
  std::error_code failed;
  if (const fs::path folder = fs::path(place_).parent_path(); !folder.empty())
    fs::create_directories(folder, failed);
  if (failed) fail(failed.value());
  keep_permissions();
  if (name_.empty()) link();
  if (close(std::exchange(file_, -1)) != 0) fail(errno);  // some file systems say only now that they are full
  if (name_.empty()) return;
  if (std::rename(name_.c_str(), place_.c_str()) != 0) fail(errno);
  name_.clear();
}

void NewFile::keep_permissions() {
  if (!permissions_) return;
  struct stat about{};
  if (fstat(file_, &about) != 0) fail(errno);
  if ((about.st_mode & 0777) == *permissions_)
    return;  // some file systems have no others, and cannot change them
  if (fchmod(file_, *permissions_) != 0) fail(errno);
}

/// Under its own name, or where that is taken under another one, from which it is renamed.
void NewFile::link() {
  const auto link_as = [&](const std::string& name) {
    return linkat(AT_FDCWD, unnamed(file_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link_as(place_)) return;
  if (errno == EEXIST) name_ = new_name(folder_, link_as);
  if (name_.empty()) fail(errno);
}

void NewFile::fail(int error) const {
  fail_with(fmt::format("cannot write {}: {}", printable(path_), std::strerror(error)));
}

}  // namespace regard::cli
