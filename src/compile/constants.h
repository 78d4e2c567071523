// The block of constants at the top of every rendered kernel: enumerations, the key and the target's
// features, all derived from the field lists.
#pragma once

#include <string>

#include "plan/kernel_key.h"
#include "plan/target.h"

namespace regard {

std::string constants(const KernelKey&, const Target&);

}  // namespace regard
