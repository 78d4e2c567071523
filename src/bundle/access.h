// Who could have put kernels into the file of a bundle: what is in there gets executed.
#pragma once

#include <string>

#include "bundle/bytes.h"

namespace regard::bundle {

/// "anybody can write it (mode 666)", of the file or of its folder; empty where not everybody can, and for a
/// bundle in memory.
std::string open_to_everybody(const Place&);

/// "it belongs to user 1000", or its folder does, or another group can write there; empty where this user and
/// root alone can. A group of this process's own may write: many users' files have that from their umask.
std::string open_to_another(const Place&);

}  // namespace regard::bundle
