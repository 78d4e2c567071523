// REGARD_RECORD: the problems that a program has, written to a file from which their kernels are built ahead
// of time (build/record.h reads it).
#pragma once

#include "plan/plan.h"

namespace regard {

/// Appends the problem of a new plan, once in a process, and not where the file had it when the process first
/// wrote. Any number of processes may write to one file. What cannot be written is one warning, and never a
/// failure.
void record(const Plan&);

}  // namespace regard
