#include "base/regular_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/scarce.h"

namespace regard {
namespace {

/// More descriptors or memory would mend some errors: the next try may succeed.
tl::unexpected<Error> cannot(const char* what, int error) {
  return fail(kind_of(error, ErrorKind::invalid),
              fmt::format("it cannot be {}: {}", what, std::strerror(error)));
}

}  // namespace

Result<RegularFile> RegularFile::open(const std::string& path, Links links, int folder, bool* missing) {
  const int no_links = links == Links::refused ? O_NOFOLLOW : 0;
  Descriptor file(openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | no_links));
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

Status RegularFile::read(std::span<std::byte> place) const {
  while (!place.empty()) {
    const ssize_t count = ::read(file_.number(), place.data(), place.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot("read", errno);
    if (count == 0) return invalid("it became shorter while it was read");
    place = place.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::string> read_file(const std::string& path, std::uint64_t most, Links links, bool* missing) {
  const Result<RegularFile> file = RegularFile::open(path, links, AT_FDCWD, missing);
  if (!file) return tl::unexpected(file.error());
  if (file->bytes() > most) return invalid(fmt::format("it is larger than {} bytes", most));
  std::string text(static_cast<std::size_t>(file->bytes()), '\0');
  if (Status read = file->read(std::as_writable_bytes(std::span(text))); !read)
    return tl::unexpected(read.error());
  return text;
}

}  // namespace regard
