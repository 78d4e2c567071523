// A new file that the command writes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/atomic_file.h"

namespace regard::cli {

/// An AtomicFile whose failures are errors. Signals are held meanwhile (HeldSignals); one that arrives stops
/// the writing.
class NewFile {
 public:
  explicit NewFile(std::string path, bool without_name = true);

  void write(std::span<const std::byte> bytes);
  void publish();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  AtomicFile file_;
};

}  // namespace regard::cli
