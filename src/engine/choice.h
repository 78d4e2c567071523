// The caller's own choice among the candidates of a problem, for the whole process (docs/tuning.md), and a
// count of changes to how plans are chosen.
#pragma once

#include "plan/plan.h"

namespace regard {

/// Replaces the function for plans that are made from now on; an empty one: none.
void choose_by(Choose);
Choose current_choice();

/// A count that changes whenever plans may be chosen in another way, so that remembered plans are not used
/// any more.
int choice_changes();
void note_choice_change();

}  // namespace regard
