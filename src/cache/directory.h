// The cache's folder: opened once per operation, checked, and then used through its descriptor only, so that
// nothing can be put in its place in between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/files.h"
#include "base/result.h"

namespace regard::cache {

/// What a name in the folder stands for.
struct Named {
  std::string name;
  bool regular = false;
  std::int64_t bytes = 0;
  std::int64_t used_unix_seconds = 0;  ///< time of last modification: a hit sets it
};

class Directory {
 public:
  /// Error: why it must not or cannot be used. Code is loaded from here, so it has to belong to this user and
  /// nobody else may be able to write to it.
  static Result<Directory> open(const std::string& path);
  /// Makes it, with its parents, when it is not there.
  static Result<Directory> open_or_make(const std::string& path);

  /// A file that passes the same checks. Error: what is wrong with it; `missing` tells that there is none.
  Result<RegularFile> file(const std::string& name, bool& missing) const;

  /// Puts a file with these bytes under this name, in one step for everybody who looks. Error: errno's text.
  Status write(const std::string& name, const std::vector<std::byte>& bytes) const;

  /// Removes a file, or whatever else stands under that name.
  void remove(const std::string& name) const;

  std::vector<Named> names() const;
  int descriptor() const { return folder_.number(); }

 private:
  /// A new file beside the one of that name, and what it is called.
  Descriptor make_temporary(const std::string& name, std::string& temporary) const;

  Directory(std::string path, Descriptor folder) : path_(std::move(path)), folder_(std::move(folder)) {}
  std::string path_;
  Descriptor folder_;
};

/// A hit tells that an entry is in use by its date, at most once an hour.
void touch(const RegularFile&);

/// Ends the name of a file that is being written.
inline constexpr std::string_view temporary_suffix = ".tmp";
/// Begins the name of a file that is made and removed to see whether that can be done.
inline constexpr std::string_view probe_prefix = ".regard-";

/// "ok" or the sentence that says why the folder is not used, or is only read.
std::string state_of_directory(const std::string& path);

}  // namespace regard::cache
