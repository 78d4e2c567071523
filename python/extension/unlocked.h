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
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    while (ending()) pause();
    PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  static bool ending() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }

  PyThreadState* state_;
};

}  // namespace regard::python
