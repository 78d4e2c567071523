// The tensors of functions that are planned as words, in the roles of those words.
#pragma once

#include "plan/plan.h"
#include "regard/regard.h"

namespace regard {

/// The tensors of a call as the plan's kernels take them: in `storage`, or the given ones themselves if no
/// word reads a captured tensor. Fails with what the word does not take: another type, indices that are
/// clamped, strides. The tensors must have passed check_tensors.
Result<const regard_arguments*> in_roles_of_words(const Plan&, const regard_arguments& given,
                                                  regard_arguments& storage);

}  // namespace regard
