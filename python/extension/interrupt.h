// Ctrl-C while a call compiles. Python's own signal handler only sets a flag; the Python handler runs after
// the call has ended, as it may make calls of its own.
#pragma once

#include <atomic>

namespace regard::python {

/// Lets the library poll for Ctrl-C.
void end_compiles_on_interrupt();

/// Ctrl-C was noted and has not been handled yet.
extern std::atomic<bool> interrupt_noted;

/// Does what Python would have done on Ctrl-C; throws what its handler raises, usually KeyboardInterrupt.
/// False: the main thread has to do it.
bool handle_interrupt();

}  // namespace regard::python
