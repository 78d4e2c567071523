// Who can write to the file of a bundle, whose kernels are executed.
#pragma once

#include <string>

#include "bundle/bytes.h"

namespace regard::bundle {

/// "anybody can write it (mode 666)", about the file or its folder; empty if not everybody can, and for a
/// bundle in memory.
std::string open_to_everybody(const Place&);

/// "it belongs to user 1000", or its folder does, or another group can write there; empty if only this user
/// and root can. The groups of this process may write: with a usual umask, many users' files allow it.
std::string open_to_another(const Place&);

}  // namespace regard::bundle
