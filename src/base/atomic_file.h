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

/// Written without a name where the file system can do that, so that nothing is left of it however the
/// process ends; else under another name, which goes with the object. Errors are sentences that name the
/// file.
class AtomicFile {
 public:
  /// To be `path`, whose folder need not be there before it is published. A link to a file stands for that
  /// file; folders, devices, pipes and sockets, links to them and to nothing, and what this process prints
  /// into are refused.
  static Result<AtomicFile> make(const std::string& path, bool without_name = true);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  Status write(std::span<const std::byte>);
  /// In place of the first bytes.
  Status write_first(std::span<const std::byte>);
  /// Waits until what is written would outlast a failure of power.
  Status sync();
  /// In place of what has the name so far, with the permissions of a file that is there.
  Status publish();

 private:
  explicit AtomicFile(const std::string& path) : path_(path) {}
  tl::unexpected<Error> cannot(int error) const;
  Status find_place();
  Status keep_permissions();
  Status link();

  std::string path_;
  std::string place_;                  ///< the same without links
  std::optional<mode_t> permissions_;  ///< of the file that is there
  std::string folder_;                 ///< the nearest that is there, so on the same file system
  std::string name_;                   ///< what it is called meanwhile; empty: nothing
  Descriptor file_;
};

/// Writes all of such a file.
Status write_atomic_file(const std::string& path, std::string_view text);

}  // namespace regard
