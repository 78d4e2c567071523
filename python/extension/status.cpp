#include "status.h"

#include "base/text.h"
#include "foreign.h"

namespace regard::python {
namespace {

// Uses a format: a path in the sentence need not be UTF-8, which PyErr_SetString requires.
void set_error(PyObject* type, const std::string& sentence) {
  PyErr_Format(type, "%s", sentence.c_str());
}

/// Escapes control characters that callers passed in, for terminals; compiler output keeps its lines.
std::string shown(regard_status status, const std::string& sentence) {
  return printable(sentence, status == REGARD_NO_KERNEL ? Newlines::kept : Newlines::escaped);
}

nb::object class_of(regard_status status) {
  nb::object classes = nb::module_::import_("regard.errors").attr("BY_STATUS");
  return classes[nb::str(regard_status_name(status))];
}

}  // namespace

void raise(regard_status status, const std::string& sentence) {
  set_error(class_of(status).ptr(), shown(status, sentence));
  throw nb::python_error();
}

namespace {

/// Objects that an exception's frames hold would live as long as it does. PyTorch's `str` holds a guard there
/// that switches its transforms off.
void clear_frames(const nb::python_error& error) {
  if (!error.traceback().is_valid()) return;
  try {
    nb::module_::import_("traceback").attr("clear_frames")(error.traceback());
  } catch (nb::python_error& failure) {  // then they live on
    pass_on(failure);
  }
}

}  // namespace

void raise_from(nb::python_error& cause, regard_status status, const std::string& sentence) {
  clear_frames(cause);
  nb::raise_from(cause, class_of(status), "%s", shown(status, sentence).c_str());
  throw nb::python_error();  // not reached
}

void raise_type(const std::string& sentence) {
  set_error(PyExc_TypeError, printable(sentence));
  throw nb::python_error();
}

bool ended_at_interrupt(regard_status status) {
  const std::string sentence = regard_status_message();  // copied, as the handler may make calls that fail
  const bool handled = handle_interrupt();
  if (handled && status == REGARD_INTERRUPTED) return false;
  if (status != REGARD_OK) raise(status, sentence);
  return true;
}

}  // namespace regard::python
