// A failed call of the C ABI becomes the Python exception of its status; the message is the sentence as it
// is.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "interrupt.h"
#include "regard/regard.h"
#include "unlocked.h"

namespace regard::python {

namespace nb = nanobind;

/// Raises the class that regard.errors.BY_STATUS names for `status`.
[[noreturn]] void raise(regard_status status, const std::string& sentence);
/// The same with an exception of Python as its cause.
[[noreturn]] void raise_from(nb::python_error& cause, regard_status status, const std::string& sentence);
/// A plain TypeError, for what is not even the right kind of object.
[[noreturn]] void raise_type(const std::string& sentence);

inline void check(regard_status status) {
  if (status != REGARD_OK) raise(status, regard_status_message());
}

/// Takes over a string that the C ABI handed out.
inline nb::str take_string(char* text) {
  nb::str result(text != nullptr ? text : "");
  regard_string_free(text);
  return result;
}

/// Makes a call of the C ABI; other threads run meanwhile, and Ctrl-C ends it where it compiles.
template <class Call>
regard_status unlocked(const Call& call) {
  regard_status status;
  do {
    const Unlocked lock;
    status = call();
  } while (again(status));
  return status;
}

/// The text that such a call gives.
template <class Call>
nb::str text_from(const Call& call) {
  char* text = nullptr;
  check(unlocked([&] { return call(&text); }));
  return take_string(text);
}

}  // namespace regard::python
