// The files that a build puts into its folder: they appear when all of them are complete, and replace only
// files of the previous build.
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
  /// Those of the previous build, as its report lists them. `inputs`: paths of the files that this build
  /// reads.
  static Result<Outputs> of(const Folder&, std::vector<std::string> inputs);

  /// Error: a file that no build has made, or that this one reads, would be replaced or removed.
  Status check(const Names& names) const;

  /// Moves files of these names from the folder `staged`, removes those of the previous build that have none
  /// of these names, and writes the report, a text that lists the names it is given. However the process
  /// ends, the report lists everything that builds have made.
  Status replace(const std::string& staged, const Names& names,
                 const std::function<std::string(const Names& files)>& report) const;

 private:
  explicit Outputs(std::string folder) : folder_(std::move(folder)) {}
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
  Status check_location(const std::string& name) const;
  Status check_is_no_input(const std::string& name) const;
  void remove(const std::string& name) const;

  std::string folder_;
  std::vector<std::string> inputs_;
  Names earlier_;
};

}  // namespace regard::aot
