// Daemon threads while the interpreter is finalizing. Before 3.14, Python ends a thread that then acquires
// the global interpreter lock, by pthread_exit, whose unwinding terminates the process when it meets a C++
// destructor or handler. Here such a thread hangs instead, as in Python 3.14 and later.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <exception>

namespace regard::python {

inline bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

[[noreturn]] inline void hang_thread() {
  while (true) pause();
}

/// Returns the result of `call`, which runs Python code or waits for the lock; if Python ends the thread in
/// it, the thread hangs.
template <class Call>
decltype(auto) hang_if_finalizing(const Call& call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    if (is_finalizing()) hang_thread();
    throw;
  }
}

/// For nanobind, which passes in each exception that leaves a function of this module: null stands for the
/// unwinding of pthread_exit, which is not a C++ exception.
inline void hang_at_thread_exit(const std::exception_ptr& error, void*) {
  if (!error && is_finalizing()) hang_thread();
  std::rethrow_exception(error);
}

}  // namespace regard::python
