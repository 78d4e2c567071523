// Files that somebody else may have made: opened without waiting, and never read beyond what is expected of
// them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

namespace regard {

enum class Links : bool { refused, followed };

/// A file with an end: no pipe or device, which would be waited for, or read for ever.
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

}  // namespace regard
