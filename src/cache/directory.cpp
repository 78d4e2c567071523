#include "cache/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "base/files.h"
#include "base/result.h"
#include "base/temporary.h"
#include "base/text.h"

namespace regard::cache {
namespace {

constexpr std::int64_t seconds_between_touches = 3600;

/// Why the file or folder that `status` describes is not trusted; empty when it is.
std::string distrust(const struct stat& status) {
  if (status.st_uid != geteuid()) {
    return fmt::format("belongs to user {}, not to this one ({})", status.st_uid, geteuid());
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fmt::format("can be written by others (mode {:o})", status.st_mode & 07777);
  }
  return "";
}

tl::unexpected<Error> unusable(const std::string& path, const std::string& why, int error = 0) {
  return fail(kind_of(error, ErrorKind::refused),
              fmt::format("the kernel cache {} is not used: it {}", in_quotes(path), why));
}

std::string error_text(int error) {
  return std::strerror(error);
}

/// Whether a kernel could be stored in a folder. Found by trying, as permissions do not show it: root has
/// them all, and still cannot create files in /proc or on a read-only or full file system. errno says why
/// not.
bool can_keep(int folder) {
  static std::atomic<unsigned> serial{0};
  constexpr std::size_t bytes_of_a_kernel = 64 * 1024;
  const std::vector<std::byte> some(bytes_of_a_kernel);
  const std::string name = fmt::format("{}{}.{}{}", probe_prefix, getpid(), ++serial, temporary_suffix);
  const int file = above_standard_streams(
      openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file < 0) return errno == EEXIST;
  mark_in_use(file);
  bool kept = write_all(file, some);
  int error = errno;
  if (close(file) != 0 && kept) {  // a file server reports only here that its disk is full
    kept = false;
    error = errno;
  }
  unlinkat(folder, name.c_str(), 0);
  errno = error;
  return kept;
}

/// Why a missing folder cannot be created, and where; empty when it can.
std::string obstacle(const std::string& path) {
  std::string above = "/";
  std::size_t missing_from = std::string::npos;
  struct stat status;
  for (std::size_t start = 1; start <= path.size() && missing_from == std::string::npos;) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string part = path.substr(0, end);
    const int failure = ::stat(part.c_str(), &status) == 0 ? 0 : errno;
    const bool dangling = failure == ENOENT && lstat(part.c_str(), &status) == 0;
    if (dangling) return fmt::format("in {}: it is a dangling link", in_quotes(part));
    if (failure == 0 && !S_ISDIR(status.st_mode))
      return fmt::format("in {}: {}", in_quotes(part), error_text(ENOTDIR));
    if (failure == ENOENT) {
      missing_from = start;
    } else if (failure != 0) {
      return fmt::format("in {}: {}", in_quotes(above), error_text(failure));
    } else {
      above = part;
    }
    start = end + 1;
  }
  if (missing_from == std::string::npos) return "";  // another process has just created it
  const Descriptor folder(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || !can_keep(folder.number()))
    return fmt::format("in {}: {}", in_quotes(above), error_text(errno));
  const long longest = fpathconf(folder.number(), _PC_NAME_MAX);
  const auto names = split(std::string_view(path).substr(missing_from), "/");
  const bool too_long = path.size() >= PATH_MAX || std::ranges::any_of(names, [&](std::string_view name) {
                          return longest > 0 && name.size() > static_cast<std::size_t>(longest);
                        });
  return too_long ? fmt::format("in {}: {}", in_quotes(above), error_text(ENAMETOOLONG)) : "";
}

/// Also used where there is no memory for a name.
struct CloseStream {
  void operator()(DIR* stream) const { closedir(stream); }
};

}  // namespace

Result<Directory> Directory::open(const std::string& path) {
  struct stat status;
  // In /tmp anyone can make a link to a folder that is ours and meant for something else.
  if (lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) && status.st_uid != geteuid() &&
      status.st_uid != 0) {
    return unusable(path, fmt::format("is a link that user {} made; set REGARD_CACHE_DIR", status.st_uid));
  }
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) {
    const int error = errno;
    return unusable(path,
                    error == ENOTDIR ? "is not a folder; remove it or set REGARD_CACHE_DIR"
                                     : "cannot be opened: " + error_text(error),
                    error);
  }
  if (fstat(folder.number(), &status) != 0) return unusable(path, "cannot be read: " + error_text(errno));
  if (const std::string why = distrust(status); !why.empty()) {
    return unusable(path,
                    why +
                        ", and what is in there gets executed; run `chmod 700` on a folder of your own or "
                        "set REGARD_CACHE_DIR");
  }
  return Directory(path, std::move(folder));
}

Result<Directory> Directory::open_or_make(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) == 0) return open(path);
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    // Existing parents need not be ours; the folder itself is checked below.
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && end == std::string::npos) {
      return unusable(path, "cannot be made: " + error_text(errno));
    }
    if (end == std::string::npos) break;
  }
  return open(path);
}

Result<RegularFile> Directory::file(const std::string& name, bool& missing) const {
  Result<RegularFile> file = RegularFile::open(name, Links::refused, folder_.number(), &missing);
  if (!file) return file;
  if (const std::string why = distrust(file->status()); !why.empty()) return invalid("it " + why);
  return file;
}

void touch(const RegularFile& file) {
  // Also corrects a date in the future, from before the clock was set back.
  if (std::abs(std::time(nullptr) - file.status().st_mtime) <= seconds_between_touches) return;
  futimens(file.descriptor(), nullptr);  // if that fails, the entry only looks older than it is
}

Descriptor Directory::make_temporary(const std::string& name, std::string& temporary) const {
  static std::atomic<unsigned> serial{0};
  // Processes of several containers can have the same number, so the name may be taken.
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = fmt::format("{}.{}.{}{}", name, getpid(), ++serial, temporary_suffix);
    Descriptor file(
        openat(folder_.number(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file || errno != EEXIST) return file;
  }
  return Descriptor();
}

Status Directory::write(const std::string& name, const std::vector<std::byte>& bytes) const {
  std::string temporary;
  const Descriptor file = make_temporary(name, temporary);
  if (!file) return invalid(error_text(errno));
  mark_in_use(file.number());
  bool written =
      fchmod(file.number(), 0600) == 0 && write_all(file.number(), bytes) && fsync(file.number()) == 0;
  const auto rename = [&] {
    return renameat(folder_.number(), temporary.c_str(), folder_.number(), name.c_str()) == 0;
  };
  if (written && !rename()) {
    written = false;
    if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST) {  // a folder of that name exists
      remove(name);
      written = rename();
    }
  }
  if (!written) {
    const int error = errno;
    unlinkat(folder_.number(), temporary.c_str(), 0);
    return invalid(error_text(error));
  }
  // Some file systems do not support it; after a crash the entry is complete or absent either way.
  fsync(folder_.number());
  return {};
}

void Directory::remove(const std::string& name) const {
  if (unlinkat(folder_.number(), name.c_str(), 0) == 0 || errno != EISDIR) return;
  remove_all((path_ + "/" + name).c_str());
}

std::vector<Named> Directory::names() const {
  std::vector<Named> found;
  Descriptor again(openat(folder_.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, CloseStream> stream(again ? fdopendir(again.number()) : nullptr);
  if (!stream) return found;
  again.release();  // closed with the stream
  while (const dirent* item = readdir(stream.get())) {
    struct stat status;
    if (fstatat(folder_.number(), item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (const std::string_view name = item->d_name; name == "." || name == "..") continue;
    found.push_back({item->d_name, S_ISREG(status.st_mode), status.st_size, status.st_mtime});
  }
  std::sort(found.begin(), found.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
  return found;
}

std::string state_of_directory(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) == 0) {
    const Result<Directory> directory = Directory::open(path);
    if (!directory) return directory.error().message;
    if (can_keep(directory->descriptor())) return "ok";
    return fmt::format("the kernel cache {} is read, but new kernels are not kept: {}", in_quotes(path),
                       error_text(errno));
  }
  const std::string why = obstacle(path);
  return why.empty() ? "ok" : unusable(path, "cannot be made " + why).value().message;
}

}  // namespace regard::cache
