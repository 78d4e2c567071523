// Whether a call that waits for a compiler is to end before its time. What knows (a command's signal handler,
// Python's) is in front of the library, which has no signal handlers of its own.
#pragma once

#include "base/result.h"

namespace regard {

/// Null: nobody is asked.
void ask_whether_interrupted(int (*asked)());

/// Asked by whoever waits, in the thread of the call, several times a second. Once true, it stays so for as
/// long as the call lasts.
bool interrupted();

inline tl::unexpected<Error> interruption() {
  return fail(ErrorKind::interrupted, "interrupted while a kernel was being compiled");
}

}  // namespace regard
