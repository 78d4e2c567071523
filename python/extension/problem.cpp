#include "problem.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string_view>
#include <tuple>

#include "dtypes.h"
#include "foreign.h"
#include "refusals.h"
#include "status.h"
#include "values.h"

namespace regard::python {
namespace {

const char* word(regard_use use) {
  switch (use) {
    case REGARD_INPUT:
      return "input";
    case REGARD_OUTPUT:
      return "output";
    case REGARD_OPTIONAL_INPUT:
      return "optional";
    case REGARD_INPUT_OUTPUT:
      return "changed";
    case REGARD_UNUSED:
      break;
  }
  return "unused";
}

TensorSpec spec_of(regard_role role, regard_use use, const regard_tensor& tensor, const AxisOrder& order) {
  TensorSpec spec{regard_role_name(role), word(use), dtype_word(tensor.dtype), {}};
  spec.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  if (follows_layout(role, tensor.rank))
    for (int axis = 0; axis < tensor.rank; ++axis) spec.shape[order[axis]] = tensor.shape[axis];
  return spec;
}

/// A value as Python writes it.
std::string written(nb::handle value, const char* name) {
  check_readable(value, name);
  const nb::object text = nb::steal(PyObject_Str(value.ptr()));
  if (!text.is_valid()) {
    nb::python_error error;
    pass_on(error);
    raise_from(error, REGARD_INVALID, std::string(name) + " is " + type_of(value) + " and cannot be written");
  }
  return text_of(text, name);
}

using TensorState = std::tuple<std::string, std::string, std::string, std::vector<std::int64_t>>;
TensorState state_of(const TensorSpec& spec) {
  return {spec.name, spec.use, spec.dtype, spec.shape};
}

}  // namespace

Problem::Problem(regard_problem* handle) : handle_(handle, regard_problem_destroy) {
  order_ = axis_order(layout_of(regard_problem_text(this->handle())));
  for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
    regard_tensor tensor{};
    check(
        regard_problem_tensor(this->handle(), static_cast<regard_role>(role), &expected_[role].use, &tensor));
    expected_[role].dtype = tensor.dtype;
  }
}

regard_problem* Problem::parse(std::string text, const nb::dict& words) {
  for (auto [name, value] : words) {
    if (value.is_none() || value.is(nb::handle(Py_False))) continue;
    const std::string key = text_of(name, "a word of the problem");
    if (!text.empty()) text += ' ';
    if (value.is(nb::handle(Py_True)))
      text += key;
    else if (key == "dtype")  // problem text has bare words for dtype and pass
      text += written(value, "dtype");
    else
      text += key + "=" + written(value, key.c_str());
  }
  regard_problem* problem = nullptr;
  check(regard_problem_parse(text.c_str(), &problem));
  return problem;
}

nb::object Problem::tensors() const {
  nb::object result = nb::module_::import_("regard.tensors").attr("Tensors")();
  for (int index = 0; index < REGARD_ROLE_COUNT; ++index) {
    const auto role = static_cast<regard_role>(index);
    regard_use use = REGARD_UNUSED;
    regard_tensor tensor{};
    check(regard_problem_tensor(handle(), role, &use, &tensor));
    if (use == REGARD_UNUSED) continue;
    TensorSpec spec = spec_of(role, use, tensor, order_);
    nb::str name(spec.name.c_str());
    result[name] = nb::cast(std::move(spec));
  }
  return result;
}

void declare_problem(nb::module_& module) {
  nb::class_<TensorSpec>(module, "TensorSpec",
                         "What a problem expects of one tensor. Compares equal if all fields are equal.")
      .def_ro("name", &TensorSpec::name, "The tensor's name, e.g. 'q' or 'grad_bias'.")
      .def_ro("use", &TensorSpec::use,
              "'input', 'output', 'optional', or 'changed' where it is written in place.")
      .def_ro(
          "dtype", &TensorSpec::dtype,
          "'fp32', 'bf16', 'fp16', 'fp8', 'fp8_e5m2', 'fp8_fnuz', 'fp8_e5m2_fnuz', 'int32', 'uint32', ...")
      .def_prop_ro(
          "shape", [](const TensorSpec& spec) { return nb::tuple(nb::cast(spec.shape)); },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Axes in the order that the problem's layout names.")
      .def("__getstate__", &state_of, nb::sig("def __getstate__(self) -> tuple[object, ...]"))
      .def(
          "__setstate__",
          [](TensorSpec& self, const TensorState& state) {
            new (&self)
                TensorSpec{std::get<0>(state), std::get<1>(state), std::get<2>(state), std::get<3>(state)};
          },
          nb::arg("state"), nb::sig("def __setstate__(self, state: tuple[object, ...]) -> None"))
      .def(
          "__hash__",
          [](const TensorSpec& spec) {
            return nb::hash(nb::make_tuple(spec.name, spec.use, spec.dtype, nb::tuple(nb::cast(spec.shape))));
          })
      .def(
          "__eq__",
          [](const TensorSpec& spec, nb::handle other) {
            const TensorSpec* right = nullptr;
            return nb::try_cast(other, right, false) && right != nullptr &&
                   state_of(spec) == state_of(*right);
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__repr__", [](const TensorSpec& spec) {
        std::string text = spec.name + ": " + spec.use + " " + spec.dtype + "[";
        for (std::size_t axis = 0; axis < spec.shape.size(); ++axis)
          text += (axis != 0 ? "," : "") + std::to_string(spec.shape[axis]);
        return text + "]";
      });

  nb::class_<Problem>(module, "Problem", R"(What is to be computed.

Problem("fwd bf16 b=2 h=16 s=1024 d=128 mask=causal")
Problem("fwd", dtype="bf16", b=2, h=16, s=1024, d=128, mask="causal", lse=True)

The words are those of problem text (docs/problem.md); keywords add words to the text. Problems are
immutable and hashable, and compare equal when they request the same thing, however they were written.

Raises InvalidError (a ValueError) with one sentence for an unknown word, a bad number or invalid sizes.)")
      .def(
          "__init__",
          [](Problem* self, nb::handle text, const nb::kwargs& words) {
            new (self) Problem(Problem::parse(text_of(text, "a problem"), words));
          },
          nb::arg("text").none() = "", nb::arg("words"),
          nb::sig("def __init__(self, text: str = '', **words: str | int | float | bool | None) -> None"))
      .def_static(
          "from_json",
          [](nb::handle json) {
            regard_problem* problem = nullptr;
            check(regard_problem_from_json(text_of(json, "json").c_str(), &problem));
            return new Problem(problem);
          },
          nb::arg("json").none(), nb::rv_policy::take_ownership,
          nb::sig("def from_json(json: str) -> Problem"),
          "The problem of a JSON object as Problem.json prints it.")
      .def_prop_ro("text", &Problem::text, "Canonical problem text: one line, Problem(p.text) == p.")
      .def_prop_ro("json", &Problem::json, "Every field by name, as one line of JSON.")
      .def_prop_ro("flops", &Problem::flops,
                   "Floating-point operations; with a mask only visible pairs count.")
      .def_prop_ro("tensors", &Problem::tensors, nb::sig("def tensors(self) -> dict[str, TensorSpec]"),
                   "The tensors that the problem takes and returns, by name.")
      .def("__str__", &Problem::text)
      .def("__repr__", [](const Problem& problem) { return "regard.Problem('" + problem.text() + "')"; })
      .def("__hash__", [](const Problem& problem) { return nb::hash(nb::str(problem.text().c_str())); })
      .def(
          "__eq__",
          [](const Problem& problem, nb::handle other) {
            Problem* right = nullptr;
            return nb::try_cast<Problem*>(other, right, false) && right != nullptr &&
                   problem.text() == right->text();
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(
          "__reduce__",
          [](nb::object self) { return nb::make_tuple(self.type(), nb::make_tuple(self.attr("text"))); },
          nb::sig("def __reduce__(self) -> tuple[type, tuple[str]]"));
  answers_arrays(module.attr("TensorSpec"));
  answers_arrays(module.attr("Problem"));
}

}  // namespace regard::python
