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

/// A file that somebody else may have made, opened without waiting and never read beyond what is expected of
/// it: one with an end, no pipe or device, which would be waited for, or read for ever.
class RegularFile {
 public:
  /// In the folder of that descriptor, else in the working one. Error: "it is a link" and the like; `missing`
  /// (may be null) tells that there is nothing of that name.
  static Result<RegularFile> open(const std::string& path, Links links, int folder = AT_FDCWD,
                                  bool* missing = nullptr);

  int descriptor() const { return file_.number(); }
  /// As it was when it was opened.
  const struct stat& status() const { return status_; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(status_.st_size); }
  /// Fills `place` with the next bytes of the file. An error, too, when there are fewer.
  Status read(std::span<std::byte> place) const;
  /// The same of the bytes from `offset` on, whatever has been read so far; for any number of threads.
  Status read_at(std::uint64_t offset, std::span<std::byte> place) const;
  /// How many of the next bytes came into `place`; 0 at the end.
  Result<std::size_t> read_some(std::span<std::byte> place) const;

 private:
  RegularFile(Descriptor file, const struct stat& status) : file_(std::move(file)), status_(status) {}
  Descriptor file_;
  struct stat status_;
};

/// All of a file that has at most `most` bytes, also of one of the system's own, whose size says 0. Error:
/// "it is not a file", "it is larger than ..." and the like.
Result<std::string> read_file(const std::string& path, std::uint64_t most, Links links,
                              bool* missing = nullptr);

/// Writes all bytes; false with errno set otherwise. Where a file-size limit (ulimit -f) is hit the kernel
/// sends SIGXFSZ, and where a reader has gone SIGPIPE, which would end the host program: here those are the
/// errors EFBIG and EPIPE and nothing more.
bool write_all(int file, std::span<const std::byte> bytes);

// Own functions over the C library's, as the C++ library's allocate where they must not throw, and end the
// process where memory runs out.

/// What is in a folder, without "." and "..". Error: "it cannot be read: ...".
Result<std::vector<std::string>> read_names(const std::string& folder);
/// The same; nothing where it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

/// Makes a folder, and those above it, where they are not there. 0, or errno.
int make_folders(const std::string& folder);

/// Removes a file, or a folder with all that is in it, as far as that can be removed. Follows no links.
void remove_all(const char* path) noexcept;

/// The path of a file from the root, without links: what it means does not depend on the working folder. As
/// it was given where the system cannot tell.
std::string real_path(const std::string& path);

}  // namespace regard
