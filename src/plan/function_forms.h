// The two functions of a problem by themselves: which words say them. Literals are in place of their numbers.
#pragma once

#include "function/tree.h"
#include "plan/function_words.h"

namespace regard {

/// Sets the mask that is the condition `keep`, or says why there is none.
Status set_mask(const function::Function& keep, Problem& words);

/// Sets the mask of those conditions of `keep` that are edges of a window, if there are some; it hides
/// nothing that `keep` shows.
void set_edges(const function::Function& keep, Problem& words);

/// Sets the soft cap and the bias that make the score, and says which captured tensor is the bias. `words`
/// already has the mask; `gradients` are the tensors whose gradient is written.
Result<std::optional<CapturedAsWord>> set_score(const function::Function& score,
                                                const std::vector<int>& gradients, Problem& words);

}  // namespace regard
