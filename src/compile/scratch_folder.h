// A private folder for a compile: removed afterwards, or kept for a person to look into a failure.
#pragma once

#include <string>
#include <utility>

#include "base/descriptor.h"
#include "base/result.h"

namespace regard {

/// Removed with this object, or by gc, unless it is kept.
class ScratchFolder {
 public:
  /// In TMPDIR, or /tmp.
  static Result<ScratchFolder> make();
  ScratchFolder(ScratchFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), mark_(std::move(other.mark_)) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  const std::string& path() const { return path_; }
  /// Writes a new file; `name` is relative to the folder.
  Status write(const std::string& name, const std::string& text) const;
  /// Its location from now on, or why it is not kept. Each source has one location, where it is kept once
  /// however often it fails.
  Result<std::string> keep(const std::string& source);

 private:
  explicit ScratchFolder(std::string path);
  void remove_files() const;
  std::string path_;
  ForkPrivateFd mark_;
};

/// "the source is kept in '...'", or why it is not; `kept` is the result of keep().
std::string kept_source(const Result<std::string>& kept, const std::string& name);

/// Keeps a source that did not compile, to be looked at, and says so.
std::string keep_source(const std::string& name, const std::string& source);

}  // namespace regard
