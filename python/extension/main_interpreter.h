// nanobind and this module have one state per process: a second interpreter would get the first one's
// objects.
#pragma once

#include <Python.h>

#include <iterator>

namespace regard::python {

inline int refuse_other_interpreters(PyObject*) {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return 0;
  PyErr_SetString(
      PyExc_ImportError,
      "regard works only in the main interpreter, and this is a subinterpreter: import it there, or in a "
      "process of its own (multiprocessing)");
  return -1;
}

/// The definition of a module that is refused before any of it is executed.
inline PyObject* of_main_interpreter(PyObject* definition) {
  static PyModuleDef_Slot slots[8] = {{Py_mod_exec, reinterpret_cast<void*>(refuse_other_interpreters)}};
  if (definition == nullptr) return nullptr;
  PyModuleDef_Slot*& theirs = reinterpret_cast<PyModuleDef*>(definition)->m_slots;
  if (theirs == slots) return definition;
  PyModuleDef_Slot* last = slots + 1;
  for (const PyModuleDef_Slot* slot = theirs; slot->slot != 0 && last != std::end(slots) - 1; ++slot)
    *last++ = *slot;
  theirs = slots;
  return definition;
}

}  // namespace regard::python
