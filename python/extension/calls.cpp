#include "calls.h"

#include <nanobind/stl/string.h>

#include <iterator>
#include <optional>
#include <utility>

#include "binding.h"
#include "refusals.h"
#include "roles.h"

namespace regard::python {
namespace {

constexpr std::size_t most_known = 1024;

}  // namespace

nb::object Calls::again(const std::string& pass, const nb::dict& inputs, const nb::dict& options,
                        const nb::dict& outputs, bool recorded) const {
  const Source source = recorded ? Source::recorder : Source::caller;
  const std::optional<Given> given = Given::read({pass, inputs, options, outputs, source});
  if (!given) {
    refuse_traced({inputs, options, outputs});
    return nb::none();
  }
  if (torch_is_tracing()) refuse_traced("q");
  const auto found = known_.find(given->key);
  if (found == known_.end()) return nb::none();
  const std::shared_ptr<const Known> known = found->second;
  return run(*known, *given);
}

nb::object Calls::run(const Known& known, const Given& given) {
  const Plan& plan = nb::cast<const Plan&>(known.plan);
  Binding binding(nb::cast<const Problem&>(plan.problem()), plan.on_gpu() ? Place::gpu : Place::host);
  for (const Given::Array& array : given.arrays) binding.bind(array.role, array.view);
  binding.arguments().seed = given.seed;
  binding.arguments().offset = given.offset;
  nb::object results = nb::steal(PyTuple_New(std::ssize(known.outputs)));
  Py_ssize_t index = 0;
  nb::object result;
  for (const Output& output : known.outputs) {
    if (const Given::Array* array = given.find(output.role)) {
      result = nb::borrow(array->object);
    } else {
      result = torch_memory_like(output.like, known.zeros);
      const std::optional<ArrayView> view = view_of_torch(result, Source::call);
      if (!view)
        return nb::none();  // PyTorch would allocate something else: a mode that makes other tensors is on
      binding.bind(output.role, *view);
    }
    PyTuple_SET_ITEM(results.ptr(), index++, nb::object(result).release().ptr());
  }
  plan.launch(binding.arguments(), nb::none(), given.stream, given.leader()->object);
  return index == 1 ? result : results;
}

void Calls::remember(const std::string& pass, const nb::dict& inputs, const nb::dict& options,
                     const nb::dict& outputs, nb::object plan, const nb::list& described, bool zeros) {
  const std::optional<Given> given = Given::read({pass, inputs, options, outputs});
  if (!given) return;
  auto known = std::make_shared<Known>(Known{std::move(plan), {}, zeros});
  for (const nb::handle one : described) {
    const auto output = nb::cast<nb::tuple>(one);
    known->outputs.push_back({role_from_name(nb::cast<std::string>(output[0])),
                              torch_expanded(given->leader()->object, output[1], output[2])});
  }
  if (known_.size() >= most_known) known_.clear();
  known_.insert_or_assign(given->key, std::move(known));
}

void declare_calls(nb::module_& module) {
  nb::class_<Calls>(module, "Calls", "Earlier calls with PyTorch tensors.")
      .def(nb::init<>())
      .def_static(
          "takes", [](nb::handle leader) { return is_usual(leader); }, nb::arg("leader").none(),
          nb::sig("def takes(leader: object) -> bool"),
          "Whether a call with such a Q, or what it has in its place, is ever remembered.")
      .def("again", &Calls::again, nb::arg("pass_"), nb::arg("inputs"), nb::arg("options"),
           nb::arg("outputs"), nb::arg("recorded") = false,
           nb::sig("def again(self, pass_: str, inputs: dict[str, object], options: dict[str, object], "
                   "outputs: dict[str, object], recorded: bool = False) -> typing.Any"),
           "Makes a call that matches a remembered one and returns its results, or None without a match. "
           "Tensors may require gradients if the caller records the call.")
      .def("remember", &Calls::remember, nb::arg("pass_"), nb::arg("inputs"), nb::arg("options"),
           nb::arg("outputs"), nb::arg("plan"), nb::arg("described"), nb::arg("zeros"),
           nb::sig("def remember(self, pass_: str, inputs: dict[str, object], options: dict[str, object], "
                   "outputs: dict[str, object], plan: Plan, described: "
                   "collections.abc.Sequence[tuple[str, tuple[int, ...], object]], zeros: bool) -> None"));
}

}  // namespace regard::python
