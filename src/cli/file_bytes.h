// The bytes of a file, read as far as they are needed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/files.h"

namespace regard::cli {

/// Room for all bytes of a file, of which only requested parts are read: the file of a model can be larger
/// than the memory. Parts that are not read yet are zero. Failures are errors that name the file.
class FileBytes {
 public:
  explicit FileBytes(std::string path);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::span<const std::byte> all() const { return {memory_, size_}; }
  /// A part of all().
  void read(std::span<const std::byte> part);

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_;
  RegularFile file_;
  std::byte* memory_ = nullptr;
  std::size_t size_;
};

}  // namespace regard::cli
