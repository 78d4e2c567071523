// A failed call of the C ABI becomes the Python exception of its status; the message is the sentence as it
// is.
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
/// The same with an exception of Python as its cause.
[[noreturn]] void raise_from(nb::python_error& cause, regard_status status, const std::string& sentence);
/// A plain TypeError, for what is not even the right kind of object.
[[noreturn]] void raise_type(const std::string& sentence);

inline void check(regard_status status) {
  if (status != REGARD_OK) raise(status, regard_status_message());
}

/// Handles Ctrl-C that came during a call with this status; false: it ended the call, which is to be made
/// anew. Raises what the handler raises, or else what the call failed with.
bool ended_at_interrupt(regard_status status);

/// Whether a call with this status has ended, rather than to be made anew; raises what it failed with.
inline bool ended(regard_status status) {
  if (interrupt_noted.load(std::memory_order_relaxed)) return ended_at_interrupt(status);
  check(status);
  return true;
}

/// Makes a call of the C ABI; other threads run meanwhile, and Ctrl-C ends it where it compiles.
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
/// A string that the C ABI handed out.
using Text = std::unique_ptr<char, FreeString>;

inline nb::str take_string(char* given) {
  const Text text(given);
  return nb::str(text ? text.get() : "");
}

/// The text that a call gives which is made like `unlocked`.
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
