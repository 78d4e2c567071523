// Threads that Python ends. Before 3.14 it ends a daemon thread that wants the global interpreter lock of an
// interpreter that is ending: by pthread_exit, whose unwinding ends the process where it meets a destructor
// or a handler of C++. Such threads stay where they are instead, as from 3.14 on.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <exception>

namespace regard::python {

inline bool interpreter_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

[[noreturn]] inline void stay() {
  while (true) pause();
}

/// What `call` gives, which runs code of Python or waits for the lock.
template <class Call>
decltype(auto) staying(const Call& call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    if (interpreter_is_ending()) stay();
    throw;
  }
}

/// For nanobind, which asks it of each exception that leaves a function of this module: an unwinding by
/// pthread_exit is none of C++.
inline void stay_if_ended(const std::exception_ptr& error, void*) {
  if (!error && interpreter_is_ending()) stay();
  std::rethrow_exception(error);
}

}  // namespace regard::python
