// The global interpreter lock, released around long calls.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace regard::python {

/// As nanobind's gil_scoped_release, but a thread that comes back when the interpreter is ending stays here,
/// as Python itself does it from 3.14 on. Older ones end the thread by unwinding, which a destructor turns
/// into an abort.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()), outer_(PyThread_tss_get(&of_thread)) {
    PyThread_tss_set(&of_thread, state_);
  }
  ~Unlocked() {
    PyThread_tss_set(&of_thread, outer_);
    while (ending()) pause();
    PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  /// To be called before the first is made; false: there is no key for what each thread keeps.
  static bool begin() { return PyThread_tss_create(&of_thread) == 0; }
  /// With what this thread can take the lock again; null: it has not released it here.
  static PyThreadState* state() { return static_cast<PyThreadState*>(PyThread_tss_get(&of_thread)); }

 private:
  static bool ending() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }

  static inline Py_tss_t of_thread = Py_tss_NEEDS_INIT;
  PyThreadState* const state_;
  void* const outer_;
};

}  // namespace regard::python
