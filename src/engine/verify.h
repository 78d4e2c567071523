// REGARD_VERIFY: runs a second path (a family, a target or the oracle) in addition to the live call and
// reports the difference.
#pragma once

#include "engine/prepared.h"
#include "regard/regard.h"

namespace regard {

/// Does nothing unless REGARD_VERIFY is set. The live outputs are never touched; the report goes to stderr.
/// An error only where the setting names nothing that exists; what the second path cannot do is reported, as
/// the call itself is already done.
Status verify_if_asked(const PreparedPlan& live, const regard_arguments&);

}  // namespace regard
