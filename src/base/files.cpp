#include "base/files.h"

#include <dirent.h>
#include <fmt/format.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/thread.h"

namespace regard {
namespace {

/// Some errors only lack descriptors or memory: the next try may succeed.
tl::unexpected<Error> cannot(const char* what, int error) {
  return fail(kind_of(error, ErrorKind::invalid),
              fmt::format("it cannot be {}: {}", what, std::strerror(error)));
}

tl::unexpected<Error> shorter() {
  return invalid("it became shorter while it was read");
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

}  // namespace

Result<RegularFile> RegularFile::open(const std::string& path, Links links, int folder, bool* missing) {
  const int no_links = links == Links::refused ? O_NOFOLLOW : 0;
  int opened;
  do {
    opened = openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | no_links);
  } while (opened < 0 && errno == EINTR);
  Descriptor file(opened);
  const int error = errno;
  if (missing != nullptr) *missing = !file && error == ENOENT;
  if (!file && error == ELOOP && links == Links::refused) return invalid("it is a link");
  if (!file && error == ENXIO) return invalid("it is not a file");  // a socket
  if (!file) return cannot("opened", error);
  struct stat status;
  if (fstat(file.number(), &status) != 0) return cannot("read", errno);
  if (!S_ISREG(status.st_mode)) return invalid("it is not a file");
  return RegularFile(std::move(file), status);
}

Result<std::size_t> RegularFile::read_some(std::span<std::byte> buffer) const {
  ssize_t count;
  do {
    count = ::read(file_.number(), buffer.data(), buffer.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return cannot("read", errno);
  return static_cast<std::size_t>(count);
}

Status RegularFile::read_at(std::uint64_t offset, std::span<std::byte> buffer) const {
  while (!buffer.empty()) {
    const ssize_t count = pread(file_.number(), buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot("read", errno);
    if (count == 0) return shorter();
    buffer = buffer.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Status RegularFile::read(std::span<std::byte> buffer) const {
  while (!buffer.empty()) {
    const Result<std::size_t> count = read_some(buffer);
    if (!count) return tl::unexpected(count.error());
    if (*count == 0) return shorter();
    buffer = buffer.subspan(*count);
  }
  return {};
}

Result<std::string> read_file(const std::string& path, std::uint64_t most, Links links, bool* missing) {
  const Result<RegularFile> file = RegularFile::open(path, links, AT_FDCWD, missing);
  if (!file) return tl::unexpected(file.error());
  const auto too_large = [&] { return invalid(fmt::format("it is larger than {} bytes", most)); };
  if (file->bytes() > most) return too_large();
  // One byte more than allowed shows where it ends. Its size is only a hint: files in /proc and the like
  // report 0.
  constexpr std::uint64_t least = 4096;
  const auto room = [&](std::uint64_t bytes) {
    return static_cast<std::size_t>(std::min(std::max(bytes, least), most) + 1);
  };
  std::string text(room(file->bytes()), '\0');
  std::size_t length = 0;
  while (true) {
    const Result<std::size_t> count =
        file->read_some(std::as_writable_bytes(std::span(text).subspan(length)));
    if (!count) return tl::unexpected(count.error());
    length += *count;
    if (length > most) return too_large();
    if (*count == 0) break;
    if (length == text.size()) text.resize(room(2 * length));
  }
  text.resize(length);
  return text;
}

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

Result<std::vector<std::string>> read_names(const std::string& folder) {
  const auto cannot = [](int error) {
    return fail(kind_of(error, ErrorKind::invalid),
                std::string("it cannot be read: ") + std::strerror(error));
  };
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseFolder> open(opendir(folder.c_str()));
  if (!open) return cannot(errno);
  while (true) {
    errno = 0;  // readdir returns the same at the end as where it fails
    const dirent* const item = readdir(open.get());
    if (item == nullptr && errno != 0) return cannot(errno);
    if (item == nullptr) return names;
    const std::string_view name = item->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

std::vector<std::string> names_in(const std::string& folder) {
  return read_names(folder).value_or(std::vector<std::string>());
}

int make_folders(const std::string& folder) {
  struct stat status;
  for (std::size_t end = 0; end < folder.size();) {
    end = std::min(folder.find('/', end + 1), folder.size());
    const std::string part = folder.substr(0, end);
    if (stat(part.c_str(), &status) == 0) {
      if (!S_ISDIR(status.st_mode)) return ENOTDIR;
    } else if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
      return errno;
    }
  }
  return 0;
}

void remove_all(const char* path) noexcept {
  if (unlink(path) == 0 || (errno != EISDIR && errno != EPERM)) return;
  constexpr int descriptors = 8;
  const auto remove_one = [](const char* one, const struct stat*, int, FTW*) { return std::remove(one), 0; };
  nftw(path, remove_one, descriptors, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
  return real ? real.get() : path;
}

}  // namespace regard
