// Functions that words of a problem can say.
#pragma once

#include "problem/problem.h"

namespace regard {

/// The problem with words in place of its functions, if there are words for both: causal masks and windows on
/// both diagonals, sink tokens, a soft cap. Else the problem itself.
Problem in_words(const Problem&);

}  // namespace regard
