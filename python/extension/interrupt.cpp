#include "interrupt.h"

#include <nanobind/nanobind.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

namespace regard::python {

namespace nb = nanobind;

constinit std::atomic<bool> interrupt_noted{false};

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds between_looks{50};  // each takes the global interpreter lock

/// Python handles signals in its main thread.
bool is_main_thread() {
  return syscall(SYS_gettid) == getpid();
}

int interrupted() {
  if (!is_main_thread()) return 0;
  static Clock::time_point next_look;
  const Clock::time_point now = Clock::now();
  if (interrupt_noted || now < next_look) return static_cast<int>(interrupt_noted);
  next_look = now + between_looks;
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) return 0;
  const PyGILState_STATE state = PyGILState_Ensure();
  interrupt_noted = PyOS_InterruptOccurred() != 0;
  PyGILState_Release(state);
  return static_cast<int>(interrupt_noted);
}

}  // namespace

void end_compiles_on_interrupt() {
  regard_interrupt_if(interrupted);
}

// Not by PyErr_SetInterrupt, which would wake who waits for signals (signal.set_wakeup_fd) once more.
void handle_interrupt() {
  if (!is_main_thread()) return;
  interrupt_noted = false;
  const nb::object handler = nb::module_::import_("signal").attr("getsignal")(SIGINT);
  if (PyCallable_Check(handler.ptr()) == 0) return;
  PyObject* const frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  handler(SIGINT, frame != nullptr ? nb::handle(frame) : nb::handle(Py_None));
}

}  // namespace regard::python
