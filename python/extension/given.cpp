#include "given.h"

#include <string_view>

#include "roles.h"

namespace regard::python {
namespace {

template <class Number>
void append(std::string& key, const Number& number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// A value that is fully described by its type and its digits or letters; false for any other.
bool append_value(std::string& key, nb::handle value) {
  PyObject* const object = value.ptr();
  if (object == Py_None || object == Py_True || object == Py_False) {
    key += object == Py_None ? 'N' : object == Py_True ? 'T' : 'F';
    return true;
  }
  if (PyLong_CheckExact(object)) {
    int overflow = 0;
    append(key += 'i', PyLong_AsLongLongAndOverflow(object, &overflow));
    return overflow == 0;
  }
  if (PyFloat_CheckExact(object)) {
    append(key += 'f', PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (PyUnicode_CheckExact(object)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) {  // half of a surrogate pair
      PyErr_Clear();
      return false;
    }
    append(key += 's', size);
    key.append(text, static_cast<std::size_t>(size));
    return true;
  }
  if (!PyTuple_CheckExact(object)) return false;
  const Py_ssize_t size = PyTuple_GET_SIZE(object);
  append(key += 't', size);
  for (Py_ssize_t i = 0; i < size; ++i)
    if (!append_value(key, PyTuple_GET_ITEM(object, i))) return false;
  return true;
}

void append_array(std::string& key, regard_role role, const ArrayView& view) {
  append(key += 'a', view.type);
  append(key, view.device);
  append(key, view.device_number);
  append(key, view.rank);
  if (role == REGARD_PAGE_LIST) return;  // its length grows with the sequences, and no plan depends on it
  for (int axis = 0; axis < view.rank; ++axis) append(key, view.shape[static_cast<std::size_t>(axis)]);
}

bool is_usual(const ArrayView& view) {
  return view.flaw == Flaw::none && view.rank > 0;
}

bool read_number(nb::handle value, std::uint64_t& number) {
  if (!PyLong_CheckExact(value.ptr())) return false;
  number = PyLong_AsUnsignedLongLong(value.ptr());
  if (PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();
  return false;
}

}  // namespace

bool is_usual(nb::handle array) {
  const std::optional<ArrayView> view = view_of_torch(array);
  return view && is_usual(*view);
}

const Given::Array* Given::find(regard_role role) const {
  for (const Array& array : arrays)
    if (array.role == role) return &array;
  return nullptr;
}

const Given::Array* Given::leader() const {
  for (const regard_role role : leading_roles)
    if (const Array* array = find(role)) return array;
  return nullptr;
}

bool Given::read(const nb::dict& named, Source source) {
  for (auto [name, value] : named) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
    if (text == nullptr) throw nb::python_error();
    if (!read({text, static_cast<std::size_t>(size)}, value, source)) return false;
  }
  return true;
}

bool Given::read(std::string_view name, nb::handle value, Source source) {
  if (name == "stream") {
    stream = value.ptr();
    return true;
  }
  if (name == "seed" && read_number(value, seed)) return true;  // otherwise a tensor of seed and offset
  if (name == "offset") return read_number(value, offset);
  append(key, name.size());
  key.append(name);
  const std::optional<ArrayView> view = view_of_torch(value, source);
  const regard_role role = role_from_name(name);
  // True may request an output tensor; a list of numbers stands for an array.
  if (!view)
    return (role == REGARD_ROLE_COUNT || PyTuple_Check(value.ptr()) == 0) && append_value(key, value);
  if (role == REGARD_ROLE_COUNT || !is_usual(*view)) return false;
  append_array(key, role, *view);
  arrays.push_back({role, value, *view});
  return true;
}

std::optional<Given> Given::read(const Asked& asked) {
  Given given;
  given.key.reserve(512);
  given.key = asked.pass;
  given.arrays.reserve(8);
  const bool usual = given.read(asked.inputs, asked.source) && given.read(asked.options, asked.source) &&
                     given.read(asked.outputs, asked.source);
  if (!usual || given.leader() == nullptr) return {};
  return given;
}

}  // namespace regard::python
