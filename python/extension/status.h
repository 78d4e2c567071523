// A failed call of the C ABI becomes the Python exception of its status, with the status message unchanged.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "interrupt.h"
#include "regard/regard.h"
#include "unlocked.h"

namespace regard::python {

namespace nb = nanobind;

/// Raises the class that regard.errors.BY_STATUS names for `status`.
[[noreturn]] void raise(regard_status status, const std::string& sentence);
/// The same with a Python exception as its cause.
[[noreturn]] void raise_from(nb::python_error& cause, regard_status status, const std::string& sentence);
/// A plain TypeError, for arguments that are not even the right kind of object.
[[noreturn]] void raise_type(const std::string& sentence);

inline void check(regard_status status) {
  if (status != REGARD_OK) raise(status, regard_status_message());
}

/// Handles Ctrl-C that came during a call with this status; false: it ended the call, which has to be made
/// again. Raises what the handler raises, or otherwise the call's own error.
bool ended_at_interrupt(regard_status status);

/// Whether a call with this status is done and need not be made again; raises its error.
inline bool ended(regard_status status) {
  if (interrupt_noted.load(std::memory_order_relaxed)) return ended_at_interrupt(status);
  check(status);
  return true;
}

/// Makes a call of the C ABI without the interpreter lock; Ctrl-C cancels it if it is compiling.
template <class Call>
void unlocked(const Call& call) {
  regard_status status;
  do {
    const Unlocked lock;
    status = call();
  } while (!ended(status));
}

struct FreeString {
  void operator()(char* text) const { regard_string_free(text); }
};
/// Takes over a string that the C ABI returned.
using Text = std::unique_ptr<char, FreeString>;

inline nb::str take_string(char* given) {
  const Text text(given);
  return nb::str(text ? text.get() : "");
}

/// The text returned by a call that is made like `unlocked`.
template <class Call>
nb::str text_from(const Call& call) {
  Text text;
  unlocked([&] {
    char* given = nullptr;
    const regard_status status = call(&given);
    text.reset(given);
    return status;
  });
  return take_string(text.release());
}

}  // namespace regard::python
