// Files and folders.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace regard {

enum class Links : bool { refused, followed };

/// A file that another process may have made, opened without blocking and never read beyond the expected
/// size. It must be a regular file: a pipe or device could block, or be read forever.
class RegularFile {
 public:
  /// Relative to the folder of that descriptor, else to the working folder. Error: "it is a link" and the
  /// like; `missing` (may be null) reports that nothing of that name exists.
  static Result<RegularFile> open(const std::string& path, Links links, int folder = AT_FDCWD,
                                  bool* missing = nullptr);

  int descriptor() const { return file_.number(); }
  /// As it was when it was opened.
  const struct stat& status() const { return status_; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(status_.st_size); }
  /// Fills `buffer` with the next bytes of the file. Fails when there are fewer.
  Status read(std::span<std::byte> buffer) const;
  /// The same for the bytes from `offset` on, whatever has been read so far; for any number of threads.
  Status read_at(std::uint64_t offset, std::span<std::byte> buffer) const;
  /// The number of next bytes that came into `buffer`; 0 at the end.
  Result<std::size_t> read_some(std::span<std::byte> buffer) const;

 private:
  RegularFile(Descriptor file, const struct stat& status) : file_(std::move(file)), status_(status) {}
  Descriptor file_;
  struct stat status_;
};

/// The whole of a file of at most `most` bytes, including files in /proc and the like, whose size says 0.
/// Error: "it is not a file", "it is larger than ..." and the like.
Result<std::string> read_file(const std::string& path, std::uint64_t most, Links links,
                              bool* missing = nullptr);

/// Writes all bytes; false with errno set otherwise. Where a file-size limit (ulimit -f) is reached the
/// kernel sends SIGXFSZ, and where a reader is gone SIGPIPE, either of which would end the host program: here
/// those are just the errors EFBIG and EPIPE.
bool write_all(int file, std::span<const std::byte> bytes);

// Our own functions over the C library's, as those of the C++ library allocate where they must not throw, and
// so end the process where memory runs out.

/// The names in a folder, without "." and "..". Error: "it cannot be read: ...".
Result<std::vector<std::string>> read_names(const std::string& folder);
/// The same; nothing where it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

/// Creates a folder and those above it where they do not exist. 0, or errno.
int make_folders(const std::string& folder);

/// Removes a file, or a folder with everything in it, as far as that can be removed. Follows no links.
void remove_all(const char* path) noexcept;

/// The absolute path of a file, without links: it does not depend on the working folder. The path as given
/// where the system cannot tell.
std::string real_path(const std::string& path);

}  // namespace regard
