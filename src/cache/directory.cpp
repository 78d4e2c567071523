#include "cache/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/printable.h"
#include "base/temporary.h"
#include "base/write_file.h"

namespace regard::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t seconds_between_touches = 3600;

/// Why what `status` describes is not to be trusted; empty when it is.
std::string distrust(const struct stat& status) {
  if (status.st_uid != geteuid()) {
    return fmt::format("belongs to user {}, not to this one ({})", status.st_uid, geteuid());
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fmt::format("can be written by others (mode {:o})", status.st_mode & 07777);
  }
  return "";
}

tl::unexpected<Error> unusable(const std::string& path, const std::string& why) {
  return fail(ErrorKind::refused,
              fmt::format("the kernel cache {} is not used: it {}", in_quotes(path), why));
}

std::string error_text(int error) {
  return std::strerror(error);
}

/// Whether something can be made in a folder. Tried, as permissions do not say it: root has them all, and
/// still nothing can be made in /proc or on a file system that is read-only. errno says why not.
bool can_keep(int folder) {
  const std::string name = fmt::format("{}{}{}", probe_prefix, getpid(), temporary_suffix);
  if (mkdirat(folder, name.c_str(), 0700) != 0) return errno == EEXIST;
  unlinkat(folder, name.c_str(), AT_REMOVEDIR);
  return true;
}

}  // namespace

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<Directory> Directory::open(const std::string& path) {
  File file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file) {
    return unusable(path, errno == ENOTDIR ? "is not a folder; remove it or set REGARD_CACHE_DIR"
                                           : "cannot be opened: " + error_text(errno));
  }
  struct stat status;
  if (fstat(file.descriptor(), &status) != 0) return unusable(path, "cannot be read: " + error_text(errno));
  if (const std::string why = distrust(status); !why.empty()) {
    return unusable(path,
                    why +
                        ", and what is in there gets executed; run `chmod 700` on a folder of your own or "
                        "set REGARD_CACHE_DIR");
  }
  return Directory(path, std::move(file));
}

Result<Directory> Directory::open_or_make(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    // Parents that are there need not be ours; the folder itself is checked below.
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && end == std::string::npos) {
      return unusable(path, "cannot be made: " + error_text(errno));
    }
    if (end == std::string::npos) break;
  }
  return open(path);
}

Result<std::vector<std::byte>> Directory::read(const std::string& name, bool touch, bool& missing,
                                               std::size_t limit) const {
  // Not through a link, and without waiting if somebody put a pipe there.
  const File file(openat(file_.descriptor(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  missing = !file && errno == ENOENT;
  if (!file) return invalid(errno == ELOOP ? "it is a link" : "it cannot be opened: " + error_text(errno));
  struct stat status;
  if (fstat(file.descriptor(), &status) != 0) return invalid("it cannot be read: " + error_text(errno));
  if (!S_ISREG(status.st_mode)) return invalid("it is not a file");
  if (const std::string why = distrust(status); !why.empty()) return invalid("it " + why);
  if (status.st_size > std::int64_t{1} << 32) return invalid("it is larger than 4 GiB");

  std::vector<std::byte> bytes(std::min(limit, static_cast<std::size_t>(status.st_size)));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.descriptor(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return invalid("it cannot be read: " + error_text(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  // A date ahead of the clock, which was set back since, is mended too.
  if (touch && std::abs(std::time(nullptr) - status.st_mtime) > seconds_between_touches) {
    futimens(file.descriptor(), nullptr);  // where that fails, the entry only looks older than it is
  }
  return bytes;
}

File Directory::make_temporary(const std::string& name, std::string& temporary) const {
  static std::atomic<unsigned> serial{0};
  // Processes of several containers can have the same number, so the name may be taken.
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = fmt::format("{}.{}.{}{}", name, getpid(), ++serial, temporary_suffix);
    File file(openat(file_.descriptor(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file || errno != EEXIST) return file;
  }
  return File();
}

Status Directory::write(const std::string& name, const std::vector<std::byte>& bytes) const {
  std::string temporary;
  const File file = make_temporary(name, temporary);
  if (!file) return invalid(error_text(errno));
  mark_in_use(file.descriptor());
  bool written = fchmod(file.descriptor(), 0600) == 0 && write_all(file.descriptor(), bytes) &&
                 fsync(file.descriptor()) == 0;
  const auto rename = [&] {
    return renameat(file_.descriptor(), temporary.c_str(), file_.descriptor(), name.c_str()) == 0;
  };
  if (written && !rename()) {
    written = false;
    if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST) {  // somebody made a folder of that name
      remove(name);
      written = rename();
    }
  }
  if (!written) {
    const int error = errno;
    unlinkat(file_.descriptor(), temporary.c_str(), 0);
    return invalid(error_text(error));
  }
  fsync(
      file_.descriptor());  // some file systems cannot; after a crash the entry is whole or absent either way
  return {};
}

void Directory::remove(const std::string& name) const {
  if (unlinkat(file_.descriptor(), name.c_str(), 0) == 0 || errno != EISDIR) return;
  std::error_code ignored;
  fs::remove_all(fs::path(path_) / name, ignored);
}

std::vector<Named> Directory::names() const {
  std::vector<Named> found;
  const int again = openat(file_.descriptor(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = again >= 0 ? fdopendir(again) : nullptr;
  if (stream == nullptr) {
    if (again >= 0) close(again);
    return found;
  }
  while (const dirent* item = readdir(stream)) {
    struct stat status;
    if (fstatat(file_.descriptor(), item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (const std::string_view name = item->d_name; name == "." || name == "..") continue;
    found.push_back({item->d_name, S_ISREG(status.st_mode), status.st_size, status.st_mtime});
  }
  closedir(stream);
  std::sort(found.begin(), found.end(), [](const Named& a, const Named& b) { return a.name < b.name; });
  return found;
}

std::string state_of_directory(const std::string& path) {
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored))) {
    const Result<Directory> directory = Directory::open(path);
    if (!directory) return directory.error().message;
    if (can_keep(directory->file().descriptor())) return "ok";
    return fmt::format("the kernel cache {} is read, but new kernels are not kept: {}", in_quotes(path),
                       error_text(errno));
  }
  fs::path parent = path;
  while (parent.has_relative_path() && !fs::exists(parent, ignored)) parent = parent.parent_path();
  const File above(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (above && can_keep(above.descriptor())) return "ok";
  return fmt::format("the kernel cache {} is not used: it cannot be made in {}", in_quotes(path),
                     in_quotes(parent.string()));
}

}  // namespace regard::cache
