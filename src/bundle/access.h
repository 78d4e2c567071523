// Who can write to the file of a bundle, whose kernels are executed.
#pragma once

#include <string>

#include "bundle/bytes.h"

namespace regard::bundle {

/// "it is world-writable (mode 666)", about the file or its folder; empty if it is not, and for a bundle in
/// memory.
std::string world_writable(const Location&);

/// "it belongs to user 1000", or its folder does, or another group can write there; empty if only this user
/// and root can. The groups of this process may write: with a usual umask, many users' files allow it.
std::string writable_by_another(const Location&);

}  // namespace regard::bundle
