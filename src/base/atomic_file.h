// A file that appears whole, in one step, or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace regard {

/// Written without a name where the file system supports that, so that nothing is left of it however the
/// process ends; else under a temporary name, which is removed with the object. Errors are sentences that
/// name the file.
class AtomicFile {
 public:
  /// Will become `path`, whose folder need not exist before it is published. A link to a file stands for that
  /// file; folders, devices, pipes and sockets, links to them or to nothing, and the file that this process
  /// writes its output to are refused.
  static Result<AtomicFile> make(const std::string& path, bool without_name = true);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  Status write(std::span<const std::byte>);
  /// Overwrites the first bytes.
  Status write_first(std::span<const std::byte>);
  /// Waits until what is written would survive a power failure.
  Status sync();
  /// Replaces the file that has the name so far, keeping that file's permissions.
  Status publish();

 private:
  explicit AtomicFile(const std::string& path) : path_(path) {}
  tl::unexpected<Error> cannot(int error) const;
  Status find_target();
  Status keep_permissions();
  Status link();

  std::string path_;
  std::string target_;                 ///< the same with links resolved
  std::optional<mode_t> permissions_;  ///< of the existing file
  std::string folder_;                 ///< the nearest existing folder, so on the same file system
  std::string name_;                   ///< its temporary name; empty: none
  Descriptor file_;
};

/// Writes all of such a file.
Status write_atomic_file(const std::string& path, std::string_view text);

}  // namespace regard
