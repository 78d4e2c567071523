// Ctrl-C while a call compiles. Python's own handler of the signal only notes it; what it stands for is done
// when the call has ended, as a handler is Python code and may make calls of its own.
#pragma once

#include <atomic>

#include "regard/regard.h"

namespace regard::python {

/// Lets the library ask for it.
void end_compiles_on_interrupt();

/// Ctrl-C was noted and has not been handled yet.
extern std::atomic<bool> interrupt_noted;

/// What Python would have done at Ctrl-C; throws what its handler raises, usually KeyboardInterrupt.
void handle_interrupt();

/// Whether a call with this status is to be made anew: it was interrupted, and nothing was raised for that.
inline bool again(regard_status status) {
  if (interrupt_noted.load(std::memory_order_relaxed)) handle_interrupt();
  return status == REGARD_INTERRUPTED;
}

}  // namespace regard::python
