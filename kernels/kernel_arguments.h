// What one kernel is called with: the arguments of all, and behind them its own schedule, which its plan
// makes.
#pragma once

#include "kernels/arguments.h"

namespace regard {

/// A schedule is a plain struct in a file of its kernel's name (`forward_schedule.h`). Its pointers lead into
/// the workspace.
template <class Schedule>
struct KernelArguments : Arguments, Schedule {
  static_assert(alignof(Schedule) == alignof(Arguments) && sizeof(Arguments) % alignof(Arguments) == 0);
};

}  // namespace regard
