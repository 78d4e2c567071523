#include "build/build.h"

#include <fmt/format.h>

#include "build/manifest.h"
#include "build/selection.h"

namespace regard::build {

Result<std::string> build(const std::string& path, const Options& options) {
  const Result<Manifest> manifest =
      options.text.empty() ? read_manifest(path) : parse_manifest(options.text, path);
  if (!manifest) return tl::unexpected(manifest.error());
  const Result<Selection> selection = select(*manifest);
  if (!selection) return tl::unexpected(selection.error());
  if (options.only == Only::build)
    return refused("manifests cannot be built yet; --check and --list say what would be built");
  return to_json(*manifest, *selection, options.only == Only::list);
}

}  // namespace regard::build
