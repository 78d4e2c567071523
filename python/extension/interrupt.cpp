#include "interrupt.h"

#include <nanobind/nanobind.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <new>

#include "regard/regard.h"
#include "unlocked.h"

namespace regard::python {

namespace nb = nanobind;

constinit std::atomic<bool> interrupt_noted{false};

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds between_looks{50};  // each poll takes the global interpreter lock

/// Python handles signals in its main thread.
bool is_main_thread() {
  return syscall(SYS_gettid) == getpid();
}

/// Takes the pending flag that Python's handler set, if a call of this extension is there to act on it.
int interrupted() {
  PyThreadState* const state = Unlocked::state();
  if (state == nullptr || !is_main_thread()) return 0;
  static Clock::time_point next_look;
  const Clock::time_point now = Clock::now();
  if (interrupt_noted || now < next_look) return static_cast<int>(interrupt_noted);
  next_look = now + between_looks;
  PyEval_RestoreThread(state);
  interrupt_noted = PyOS_InterruptOccurred() != 0;
  PyEval_SaveThread();
  return static_cast<int>(interrupt_noted);
}

}  // namespace

void end_compiles_on_interrupt() {
  if (!Unlocked::begin()) throw std::bad_alloc();
  regard_interrupt_if(interrupted);
}

// Not by PyErr_SetInterrupt, which would wake waiters for signals (signal.set_wakeup_fd) once more.
bool handle_interrupt() {
  if (!is_main_thread()) return false;
  interrupt_noted = false;
  const nb::object handler = nb::module_::import_("signal").attr("getsignal")(SIGINT);
  if (PyCallable_Check(handler.ptr()) == 0) return true;
  PyObject* const frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  handler(SIGINT, frame != nullptr ? nb::handle(frame) : nb::handle(Py_None));
  return true;
}

}  // namespace regard::python
