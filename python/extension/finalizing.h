// Daemon threads of an interpreter that is finalizing. Before 3.14 Python ends a thread that acquires the
// global interpreter lock then, by pthread_exit, whose unwinding ends the process when it meets a destructor
// or a handler of C++. Here such a thread hangs instead, as in Python 3.14 and later.
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

/// Returns what `call` returns, which runs Python code or waits for the lock; a thread that Python ends in it
/// hangs.
template <class Call>
decltype(auto) hang_if_finalizing(const Call& call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    if (is_finalizing()) hang_thread();
    throw;
  }
}

/// For nanobind, which hands it each exception that leaves a function of this module: null stands for the
/// unwinding by pthread_exit, which is no exception of C++.
inline void hang_at_thread_exit(const std::exception_ptr& error, void*) {
  if (!error && is_finalizing()) hang_thread();
  std::rethrow_exception(error);
}

}  // namespace regard::python
