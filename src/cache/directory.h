// The cache's folder: opened once per operation, checked, and then used only through its descriptor, so that
// nothing can replace it in between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/files.h"
#include "base/result.h"

namespace regard::cache {

/// What a name in the folder refers to.
struct Named {
  std::string name;
  bool regular = false;
  std::int64_t bytes = 0;
  std::int64_t used_unix_seconds = 0;  ///< time of last modification; a hit updates it
};

class Directory {
 public:
  /// Error: why it must not or cannot be used. Code is loaded from here, so it must belong to this user, and
  /// no one else may be able to write to it.
  static Result<Directory> open(const std::string& path);
  /// Creates it, with its parents, when it does not exist.
  static Result<Directory> open_or_make(const std::string& path);

  /// A file that passes the same checks. Error: what is wrong with it; `missing` reports that there is none.
  Result<RegularFile> file(const std::string& name, bool& missing) const;

  /// Writes a file with these bytes under this name, atomically for every reader. Error: errno's text.
  Status write(const std::string& name, const std::vector<std::byte>& bytes) const;

  /// Removes a file, or whatever else has that name.
  void remove(const std::string& name) const;

  std::vector<Named> names() const;
  int descriptor() const { return folder_.number(); }

 private:
  /// A new temporary file next to the one of that name, and its own name.
  Descriptor make_temporary(const std::string& name, std::string& temporary) const;

  Directory(std::string path, Descriptor folder) : path_(std::move(path)), folder_(std::move(folder)) {}
  std::string path_;
  Descriptor folder_;
};

/// A hit marks an entry as in use by its date, at most once an hour.
void touch(const RegularFile&);

/// Suffix of the name of a file that is being written.
inline constexpr std::string_view temporary_suffix = ".tmp";
/// Prefix of the name of a file that is created and removed to see whether that works.
inline constexpr std::string_view probe_prefix = ".regard-";

/// "ok", or the sentence that says why the folder is not used, or is only read.
std::string state_of_directory(const std::string& path);

}  // namespace regard::cache
