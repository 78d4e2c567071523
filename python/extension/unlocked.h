// The global interpreter lock, released around long calls.
#pragma once

#include <Python.h>

#include "finalizing.h"

namespace regard::python {

/// Like nanobind's gil_scoped_release, but a thread that returns while the interpreter is finalizing hangs
/// here.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()), outer_(PyThread_tss_get(&of_thread)) {
    PyThread_tss_set(&of_thread, state_);
  }
  ~Unlocked() {
    PyThread_tss_set(&of_thread, outer_);
    if (is_finalizing()) hang_thread();
    hang_if_finalizing([this] { PyEval_RestoreThread(state_); });  // which may begin while it waits
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  /// To be called before the first is made; false: no key is available for thread-local data.
  static bool begin() { return PyThread_tss_create(&of_thread) == 0; }
  /// The state with which this thread can take the lock again; null: it has not released it here.
  static PyThreadState* state() { return static_cast<PyThreadState*>(PyThread_tss_get(&of_thread)); }

 private:
  static inline Py_tss_t of_thread = Py_tss_NEEDS_INIT;
  PyThreadState* const state_;
  void* const outer_;
};

}  // namespace regard::python
