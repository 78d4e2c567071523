#include "calls.h"

#include <nanobind/stl/string.h>

#include <optional>
#include <vector>

#include "problem.h"
#include "status.h"
#include "tensors.h"

namespace regard::python {
namespace {

constexpr std::size_t most_known = 1024;

template <class Number>
void append(std::string& key, const Number& number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// A value that its type and its digits or letters describe; false for any other.
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

void append_array(std::string& key, const ArrayView& view) {
  append(key += 'a', view.type);
  append(key, view.device);
  append(key, view.device_number);
  append(key, view.rank);
  for (int axis = 0; axis < view.rank; ++axis) append(key, view.shape[static_cast<std::size_t>(axis)]);
}

bool is_usual(const ArrayView& view) {
  return view.flaw == Flaw::none && view.rank > 0;
}

struct Array {
  regard_role role;
  nb::handle object;
  ArrayView view;
};

/// What a caller gives, and what makes two calls alike: all but addresses, strides, and where and with which
/// random numbers they run.
struct Given {
  std::string key;
  std::vector<Array> arrays;
  nb::handle stream = Py_None;
  std::uint64_t seed = 0, offset = 0;

  const Array* find(regard_role role) const {
    for (const Array& array : arrays)
      if (array.role == role) return &array;
    return nullptr;
  }

  /// False for what is unusual.
  bool read(const nb::dict& named) {
    for (auto [name, value] : named) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
      if (text == nullptr) throw nb::python_error();
      if (!read({text, static_cast<std::size_t>(size)}, value)) return false;
    }
    return true;
  }

 private:
  bool read(std::string_view name, nb::handle value) {
    if (name == "stream") {
      stream = value.ptr();
      return true;
    }
    if (name == "seed") return read_number(value, seed);
    if (name == "offset") return read_number(value, offset);
    append(key, name.size());
    key.append(name);
    const std::optional<ArrayView> view = view_of_torch(value);
    const regard_role role = role_from_name(name);
    // A tensor may be asked for by True; a list of numbers stands for an array.
    if (!view)
      return (role == REGARD_ROLE_COUNT || PyTuple_Check(value.ptr()) == 0) && append_value(key, value);
    if (role == REGARD_ROLE_COUNT || !is_usual(*view)) return false;
    append_array(key, *view);
    arrays.push_back({role, value, *view});
    return true;
  }

  static bool read_number(nb::handle value, std::uint64_t& number) {
    if (!PyLong_CheckExact(value.ptr())) return false;
    number = PyLong_AsUnsignedLongLong(value.ptr());
    if (PyErr_Occurred() == nullptr) return true;
    PyErr_Clear();
    return false;
  }
};

std::optional<Given> given_by(const std::string& pass, const nb::dict& inputs, const nb::dict& options) {
  Given given;
  given.key.reserve(512);
  given.key = pass;
  given.arrays.reserve(8);
  if (!given.read(inputs) || !given.read(options) || given.find(REGARD_Q) == nullptr) return {};
  return given;
}

}  // namespace

bool Calls::takes(nb::handle q) {
  const std::optional<ArrayView> view = view_of_torch(q);
  return view && is_usual(*view);
}

nb::object Calls::again(const std::string& pass, const nb::dict& inputs, const nb::dict& options) {
  const std::optional<Given> given = given_by(pass, inputs, options);
  if (!given) {
    refuse_traced(inputs);
    refuse_traced(options);
    return nb::none();
  }
  if (torch_is_tracing()) refuse_traced("q");
  const auto found = known_.find(given->key);
  if (found == known_.end()) return nb::none();
  const std::shared_ptr<const Known> known = found->second;
  const Plan& plan = nb::cast<const Plan&>(known->plan);
  const Array& q = *given->find(REGARD_Q);

  Binding binding(nb::cast<const Problem&>(plan.problem()), plan.on_gpu() ? Place::gpu : Place::host);
  for (const Array& array : given->arrays) binding.bind(array.role, array.view);
  binding.arguments().seed = given->seed;
  binding.arguments().offset = given->offset;
  nb::object results = nb::steal(PyTuple_New(std::ssize(known->outputs)));
  Py_ssize_t place = 0;
  nb::object result;
  for (const Output& output : known->outputs) {
    if (const Array* array = given->find(output.role)) {
      result = nb::borrow(array->object);
    } else {
      const bool like_q = output.like_q && !known->zeros && is_contiguous(q.view);
      result = like_q ? torch_memory_like(q.object)
                      : torch_memory(q.object, output.shape, output.dtype, known->zeros);
      const std::optional<ArrayView> view = view_of_torch(result, true);
      if (!view)
        return nb::none();  // not what PyTorch gives otherwise: a mode that makes other tensors is on
      binding.bind(output.role, *view);
    }
    PyTuple_SET_ITEM(results.ptr(), place++, nb::object(result).release().ptr());
  }
  plan.launch(binding.arguments(), nb::none(), given->stream, q.object);
  return place == 1 ? result : results;
}

void Calls::remember(const std::string& pass, const nb::dict& inputs, const nb::dict& options,
                     nb::object plan, const nb::list& outputs, bool zeros) {
  const std::optional<Given> given = given_by(pass, inputs, options);
  if (!given) return;
  const Array& q = *given->find(REGARD_Q);
  auto known = std::make_shared<Known>(Known{std::move(plan), {}, zeros});
  for (const nb::handle described : outputs) {
    const auto output = nb::cast<nb::tuple>(described);
    const nb::object shape = output[1], dtype = output[2];
    const bool like_q = dtype.is_none() && shape.equal(q.object.attr("shape"));
    known->outputs.push_back({role_from_name(nb::cast<std::string>(output[0])), shape, dtype, like_q});
  }
  if (known_.size() >= most_known) known_.clear();
  known_.insert_or_assign(given->key, std::move(known));
}

void declare_calls(nb::module_& module) {
  nb::class_<Calls>(module, "Calls", "Calls with PyTorch's tensors that were made before.")
      .def(nb::init<>())
      .def_static("takes", &Calls::takes, nb::arg("q").none(), nb::sig("def takes(q: object) -> bool"),
                  "Whether a call with such a Q is ever remembered.")
      .def("again", &Calls::again, nb::arg("pass_"), nb::arg("inputs"), nb::arg("options"),
           nb::sig("def again(self, pass_: str, inputs: dict[str, object], options: dict[str, object]) -> "
                   "typing.Any"),
           "Makes a call like one remembered, and gives its results; None where there is none.")
      .def("remember", &Calls::remember, nb::arg("pass_"), nb::arg("inputs"), nb::arg("options"),
           nb::arg("plan"), nb::arg("outputs"), nb::arg("zeros"),
           nb::sig(
               "def remember(self, pass_: str, inputs: dict[str, object], options: dict[str, object], plan: "
               "Plan, outputs: collections.abc.Sequence[tuple[str, tuple[int, ...], object]], zeros: bool) "
               "-> None"));
}

}  // namespace regard::python
