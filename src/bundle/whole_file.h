// A file that appears whole, in one step, or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

namespace regard::bundle {

/// Written under another name in the same folder, which goes with the object. Errors are sentences that name
/// the file.
class WholeFile {
 public:
  /// To be `path`. A link to a file stands for that file; what is there and is no file is refused.
  static Result<WholeFile> make(const std::string& path);
  ~WholeFile();
  WholeFile(WholeFile&& other) noexcept;
  WholeFile& operator=(WholeFile&&) = delete;

  Status write(std::span<const std::byte>);
  /// In place of the first ones.
  Status write_first(std::span<const std::byte>);
  /// In place of what has the name so far, with the permissions of that; on the disk when it returns.
  Status publish();

 private:
  WholeFile(std::string path, std::string place) : path_(std::move(path)), place_(std::move(place)) {}
  tl::unexpected<Error> cannot(int error) const;

  std::string path_, place_;  ///< as it was given, and without links
  std::string name_;          ///< meanwhile; empty when there is nothing to remove
  Descriptor file_;
};

}  // namespace regard::bundle
