// The bundles that this process takes kernels from: REGARD_BUNDLE, the one that the library has in itself,
// those of REGARD_BUNDLE_PATH, and those that were added.
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
  /// A package that is merely installed does not decide what becomes of kernels that it does not have.
  NamedBy named_by = NamedBy::program;
};

struct Bundles {
  std::optional<OpenBundle> first;  ///< REGARD_BUNDLE: asked before the library itself
  std::optional<OpenBundle>
      embedded;                    ///< in the library itself, also where REGARD_BUILT_IN=off passes it over
  std::vector<OpenBundle> others;  ///< in the order in which they are asked
  int changes = 0;                 ///< how often one was added
};

/// Opened when first asked for. An error where the settings are bad. A list stays as it is: one that is added
/// makes another list, and the earlier one goes with its last reader.
Result<std::shared_ptr<const Bundles>> bundles();

/// How often one was added so far.
int added_bundles();

/// Opens one as the settings allow it; where they trust no keys, a world-writable one is refused, and
/// one that another user can write is a warning. The error is a sentence with its path.
Result<std::shared_ptr<const Bundle>> open_trusted(const std::string& path);

/// Opens one, which is asked after those that are there; an older one of the same path goes. One that is
/// there as it is stays where it is, unless a package's is named by the program now.
Status add_bundle(const std::string& path, NamedBy = NamedBy::program);

}  // namespace regard
