// A signature as a [[variants]] table of a manifest, for users who should add it there.
#pragma once

#include <string>

#include "problem/problem.h"

namespace regard {

/// pass = "fwd", dtype = "bf16", d = 128, mask = "causal"
std::string as_variant(const Signature&);

}  // namespace regard
