// The passes, for oracle.cpp.
#pragma once

#include "oracle/inputs.h"
#include "oracle/oracle.h"

namespace regard::oracle {

Outputs forward(const Inputs&, const Options&);
Outputs backward(const Inputs&, const Options&);
/// The rows of K and V, and factors, that new tokens are written to: by append, and by forward before it
/// attends.
void append(const Inputs&, Outputs&);
Outputs merge(const Inputs&);

}  // namespace regard::oracle
