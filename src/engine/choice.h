// What decides among the candidates of a problem before the cost model does, for the whole process: a
// function of the caller (docs/tuning.md).
#pragma once

#include "plan/plan.h"

namespace regard {

/// Replaces the function for plans that are made from now on; an empty one: the caller has no choice of his
/// own.
void choose_by(Choose);
Choose current_choice();

/// Changes whenever plans may be chosen in another way, so that remembered ones are not used any more.
int choice_changes();
void note_choice_change();

}  // namespace regard
