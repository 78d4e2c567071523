// The arguments of one kernel: those common to all kernels, followed by its own schedule, which its plan
// computes.
#pragma once

#include "kernels/arguments.h"

namespace regard {

/// A schedule is a plain struct in a file named after its kernel (`forward_schedule.h`). Its pointers point
/// into the workspace.
template <class Schedule>
struct KernelArguments : Arguments, Schedule {
  static_assert(alignof(Schedule) == alignof(Arguments) && sizeof(Arguments) % alignof(Arguments) == 0);
};

}  // namespace regard
