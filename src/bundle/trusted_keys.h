// Whose signatures are accepted.
#pragma once

#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "bundle/signature.h"

namespace regard {

/// REGARD_TRUSTED_KEYS; an error where one of them is not a valid key.
Result<std::vector<PublicKey>> trusted_keys(const Settings&);

}  // namespace regard
