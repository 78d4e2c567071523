// Ctrl-C while a call compiles. Python's own handler of the signal only notes it; what it stands for is done
// when the call has ended, as a handler is Python code and may make calls of its own.
#pragma once

#include <atomic>

namespace regard::python {

/// Lets the library ask for it.
void end_compiles_on_interrupt();

/// Ctrl-C was noted and has not been handled yet.
extern std::atomic<bool> interrupt_noted;

/// Does what Python would have done at Ctrl-C; throws what its handler raises, usually KeyboardInterrupt.
/// False: that is left to the main thread.
bool handle_interrupt();

}  // namespace regard::python
