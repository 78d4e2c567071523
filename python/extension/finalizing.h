// Daemon threads of an interpreter that is finalizing. Before 3.14 Python ends one that asks for the global
// interpreter lock: by pthread_exit, whose unwinding ends the process where it meets a destructor or a
// handler of C++. Here such a thread hangs instead, as from 3.14 on.
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

/// What `call` gives, which runs code of Python or waits for the lock; a thread that Python ends in it hangs.
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
