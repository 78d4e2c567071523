// Where a bundle's bytes are: in a file, which is read where needed and never mapped (truncating a mapped
// file would crash the program), or in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/files.h"
#include "base/result.h"

namespace regard::bundle {

class Bytes {
 public:
  explicit Bytes(RegularFile file) : source_(std::move(file)) {}
  explicit Bytes(std::span<const std::byte> memory) : source_(memory) {}

  /// As many as there were when it was opened.
  std::uint64_t count() const;
  /// Fills `part` with the bytes from `offset` on; an error where there are fewer.
  Status read_at(std::uint64_t offset, std::span<std::byte> part) const;

 private:
  std::variant<RegularFile, std::span<const std::byte>> source_;
};

/// Identifies a file and its contents: it differs once the file was replaced or written to.
struct FileState {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  ///< when it was written last
  friend bool operator==(const FileState&, const FileState&) = default;
};
FileState state_of(const RegularFile&);

/// Who owns the file, and who can write it.
struct Access {
  std::uint32_t owner = 0, group = 0, mode = 0;
};
Access access_of(const struct stat&);

/// Where a bundle can be read from again.
struct Location {
  std::string path;  ///< as shown to people
  std::string file;  ///< the path it is opened by, independent of the working folder; empty: memory
  FileState state;   ///< of the file when it was opened first
  Access access;     ///< likewise
  std::span<const std::byte> memory;
};
/// `changed` reports whether the file's state differs from the first.
Result<Bytes> open(const Location&, bool& changed);

}  // namespace regard::bundle
