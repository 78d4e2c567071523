// The bundles that this process takes kernels from: REGARD_BUNDLE, the one embedded in the library, those of
// REGARD_BUNDLE_PATH, and those that were added.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bundle/bundle.h"

namespace regard {

enum class NamedBy : bool { program, package };

struct OpenBundle {
  std::string path;
  std::shared_ptr<const Bundle> bundle;  ///< null: `problem` says why
  std::string problem;
  bool scarce = false;  ///< it may open at the next try
  /// A package that is merely installed does not decide what happens to kernels that it does not contain.
  NamedBy named_by = NamedBy::program;
};

struct Bundles {
  std::optional<OpenBundle> first;     ///< REGARD_BUNDLE: asked before the library itself
  std::optional<OpenBundle> embedded;  ///< in the library itself, even where REGARD_BUILT_IN=off skips it
  std::vector<OpenBundle> others;      ///< in the order in which they are asked
  int changes = 0;                     ///< how often a bundle was added
};

/// Opened at first use. An error where the settings are invalid. A list is immutable: adding a bundle makes a
/// new list, and the earlier one is destroyed with its last reader.
Result<std::shared_ptr<const Bundles>> bundles();

/// How often a bundle has been added so far.
int added_bundles();

/// Opens a bundle as the settings allow; where they trust no keys, a world-writable one is refused, and one
/// that another user can write to gives a warning. The error is a sentence with its path.
Result<std::shared_ptr<const Bundle>> open_trusted(const std::string& path);

/// Opens a bundle, which is asked after the existing ones and replaces an older one of the same path. An
/// unchanged bundle stays where it is, unless it is a package's that the program now names.
Status add_bundle(const std::string& path, NamedBy = NamedBy::program);

}  // namespace regard
