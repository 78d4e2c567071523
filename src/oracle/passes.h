// The two passes, for oracle.cpp.
#pragma once

#include "oracle/inputs.h"
#include "oracle/oracle.h"

namespace regard::oracle {

Outputs forward(const Inputs&, const Options&);
Outputs backward(const Inputs&, const Options&);

}  // namespace regard::oracle
