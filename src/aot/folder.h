// The folder that a build writes to; it writes nowhere else.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "cache/cache.h"
#include "cache/directory.h"
#include "cache/lock.h"

namespace regard::aot {

class Folder {
 public:
  /// Creates the folder if it does not exist, and locks it. Fails where another build holds it.
  static Result<std::unique_ptr<Folder>> take(const std::string& path);

  /// The path of a file in it.
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  /// Compiled kernels, kept for the next build of this folder.
  Cache& store() { return store_; }

  /// An empty folder on the same file system, removed with the object.
  class Staging {
   public:
    ~Staging();
    Staging(Staging&& other) noexcept : path_(std::exchange(other.path_, "")) {}
    Staging& operator=(Staging&&) = delete;
    const std::string& path() const { return path_; }

   private:
    friend class Folder;
    explicit Staging(std::string path) : path_(std::move(path)) {}
    std::string path_;
  };
  /// Where the folder's new content is written first. One at a time.
  Result<Staging> stage() const;

 private:
  Folder(std::string path, cache::Directory kernels);

  std::string path_;
  cache::Directory kernels_;
  cache::ProcessLock lock_;
  Cache store_;
};

}  // namespace regard::aot
