// The folder that a build writes to, and nothing else.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cache/cache.h"
#include "cache/directory.h"
#include "cache/lock.h"

namespace regard::build {

class Folder {
 public:
  /// Makes it where it is not there, and has it for itself. An error where another build has it.
  static Result<std::unique_ptr<Folder>> take(const std::string& path);

  /// Of a file in it.
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  /// What is compiled, kept for the next build of this folder.
  Cache& store() { return store_; }

 private:
  Folder(std::string path, cache::Directory kernels);

  std::string path_;
  cache::Directory kernels_;
  cache::ProcessLock lock_;
  Cache store_;
};

}  // namespace regard::build
