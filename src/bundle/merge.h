// Several bundles into one.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "bundle/bundle.h"

namespace regard {

/// All kernels of the parts, each once, unsigned. Where two parts have a kernel of one name and one source,
/// it must be the same; and all must agree on what happens to kernels that they lack. The title is that of
/// the parts, if they share one. Errors are sentences that name the files.
Status merge_bundles(const std::string& path, std::span<const std::shared_ptr<const Bundle>> parts,
                     const std::string& version);

}  // namespace regard
