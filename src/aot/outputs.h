// The files that a build puts into its folder: they appear when all of them are whole, in place of those of
// the build before, and of nobody else's.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "aot/folder.h"
#include "base/result.h"

namespace regard::aot {

/// Names of files in the folder of a build.
using Names = std::set<std::string>;

class Outputs {
 public:
  /// Those of the build before, as its report lists them. `inputs`: paths of the files that this build reads.
  static Result<Outputs> of(const Folder&, std::vector<std::string> inputs);

  /// Error: something that no build has made, or that this one reads, would be replaced or removed.
  Status check(const Names& names) const;

  /// Moves files of these names from the folder `staged`, removes those of the build before that have none of
  /// these names, and writes the report, a text that lists what it is given. However the process ends, the
  /// report lists all that builds have made.
  Status replace(const std::string& staged, const Names& names,
                 const std::function<std::string(const Names& files)>& report) const;

 private:
  explicit Outputs(std::string folder) : folder_(std::move(folder)) {}
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
  Status check_place(const std::string& name) const;
  Status check_is_no_input(const std::string& name) const;
  void remove(const std::string& name) const;

  std::string folder_;
  std::vector<std::string> inputs_;
  Names earlier_;
};

}  // namespace regard::aot
