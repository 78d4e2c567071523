#include "values.h"

#include "foreign.h"
#include "refusals.h"
#include "status.h"

namespace regard::python {
namespace {

template <class Number>
Number whole_of(nb::handle value, const char* name, const char* range) {
  check_readable(value, name);
  // To Python True is 1, but here it is a mistake.
  const nb::object whole =
      PyBool_Check(value.ptr()) != 0 ? nb::object() : nb::steal(PyNumber_Index(value.ptr()));
  if (!whole.is_valid()) {
    forget_error();
    raise_type(std::string(name) + " is " + type_of(value) + "; it must be " +
               (PyFloat_Check(value.ptr()) != 0 ? "an int" : "a whole number"));
  }
  Number number = 0;
  if (!nb::try_cast(whole, number))
    raise(REGARD_INVALID, std::string(name) + " is " + nb::cast<std::string>(nb::str(whole)) +
                              "; it must be a whole number from " + range);
  return number;
}

}  // namespace

void answers_arrays(nb::handle type) {
  type.attr("__array_ufunc__") = nb::none();
}

std::string type_of(nb::handle value) {
  return "of type " + nb::cast<std::string>(nb::str(value.type().attr("__name__")));
}

std::string text_of(nb::handle value, const char* name) {
  if (PyUnicode_Check(value.ptr()) == 0)
    raise_type(std::string(name) + " is " + type_of(value) + "; it must be text");
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) {
    forget_error();
    raise(REGARD_INVALID,
          std::string(name) + " has half of a surrogate pair, which UTF-8 cannot encode; leave it out");
  }
  std::string result(text, static_cast<std::size_t>(size));
  if (result.find('\0') != std::string::npos)
    raise(REGARD_INVALID,
          std::string(name) + " has the character NUL, where its text would end; leave it out");
  return result;
}

std::optional<std::string> optional_text_of(nb::handle value, const char* name) {
  if (value.is_none()) return {};
  return text_of(value, name);
}

std::uint64_t unsigned_of(nb::handle value, const char* name) {
  return whole_of<std::uint64_t>(value, name, "0 to 2^64 - 1");
}

int int_of(nb::handle value, const char* name) {
  return whole_of<int>(value, name, "-2^31 to 2^31 - 1");
}

}  // namespace regard::python
