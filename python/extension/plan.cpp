#include "plan.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "binding.h"
#include "bundles.h"
#include "choice.h"
#include "compiler.h"
#include "roles.h"
#include "status.h"
#include "stream.h"
#include "unlocked.h"
#include "values.h"
#include "workspace.h"

namespace regard::python {
namespace {

nb::handle leader_of(const nb::kwargs& tensors) {
  for (const regard_role role : leading_roles)
    if (PyObject* array = PyDict_GetItemString(tensors.ptr(), regard_role_name(role))) return array;
  return Py_None;
}

}  // namespace

PlanOptions::PlanOptions(nb::handle target, nb::handle family, nb::handle threads, nb::handle functions)
    : target(optional_text_of(target, "target")),
      family(optional_text_of(family, "family")),
      threads(int_of(threads, "threads")),
      functions(optional_text_of(functions, "functions")) {}

Plan::Plan(nb::object problem, PlanOptions options)
    : problem_(std::move(problem)), options_(std::move(options)) {
  const Problem* what = nullptr;
  if (!nb::try_cast(problem_, what, false) || what == nullptr)
    raise_type("a problem is " + type_of(problem_) + "; Plan takes a Problem, and regard.plan also its text");
  const regard_plan_options c = options_.c();
  find_bundles();
  asking_choice([&] { check(regard_plan_create(what->handle(), &c, &handle_)); });
  gpu_ = regard_plan_on_gpu(handle_) != 0;
}

nb::str Plan::json() const {
  char* json = nullptr;
  check(regard_plan_json(handle_, &json));
  return take_string(json);
}

void Plan::prepare() {
  unlocked([&] { return regard_plan_prepare(handle_); });
}

void Plan::run(nb::handle seed, nb::handle offset, nb::handle workspace, nb::handle stream,
               const nb::kwargs& tensors) const {
  Binding binding(nb::cast<const Problem&>(problem_), gpu_ ? Place::gpu : Place::host);
  binding.bind(tensors);
  binding.draw(seed, offset);
  const nb::handle leader = leader_of(tensors);
  if (gpu_) binding.use(workspace);
  if (binding.busy().empty()) return launch(binding.arguments(), workspace, stream, leader);
  // In the arrays' own stream no wait is needed. In another one the host waits before and after, as
  // work that the owner of the arrays puts into theirs has to come after this.
  const Binding::Busy& array = binding.busy().front();
  void* const queue = stream.is_none() && !is_torch(leader) ? array.stream : stream_of(stream, leader);
  const bool waited = wait_for_others(binding.busy(), queue);
  launch(binding.arguments(), workspace, nb::int_(reinterpret_cast<std::uintptr_t>(queue)), leader);
  if (waited) wait_for(array.data, queue);
}

void Plan::launch(const regard_arguments& arguments, nb::handle workspace, nb::handle stream,
                  nb::handle leader) const {
  regard_status status;
  do {  // a separate workspace each time, as the Ctrl-C handler may run plans too
    const Workspace memory(workspace, handle_, gpu_, leader);
    if (!gpu_ && !stream.is_none()) raise(REGARD_INVALID, "a CPU target takes no stream");
    void* const queue = gpu_ ? stream_of(stream, leader) : nullptr;
    {
      const Unlocked unlocked;
      status = regard_plan_run(handle_, &arguments, memory.data(), memory.bytes(), queue);
    }
    if (status == REGARD_OK && gpu_ && !stream.is_none()) memory.used_in(queue, leader);
  } while (!ended(status));
}

void declare_plan(nb::module_& module) {
  nb::class_<Plan>(module, "Plan",
                   "How a problem will be computed: kernels, grids and workspace. Made by regard.plan.")
      .def(
          "__init__",
          [](Plan* self, nb::object problem, nb::handle target, nb::handle family, nb::handle threads,
             nb::handle functions) {
            [[maybe_unused]] static const bool shown =
                (show_methods(nb::type<Plan>(), {"prepare", "run"}), true);
            new (self) Plan(std::move(problem), PlanOptions{target, family, threads, functions});
          },
          nb::arg("problem").none(), nb::arg("target") = nb::none(), nb::arg("family") = nb::none(),
          nb::arg("threads").none() = 0, nb::arg("functions") = nb::none(),
          nb::sig(
              "def __init__(self, problem: Problem, target: str | None = None, family: str | None = None, "
              "threads: int = 0, functions: str | None = None) -> None"))
      .def_prop_ro("problem", &Plan::problem, nb::sig("def problem(self) -> Problem"))
      .def_prop_ro("target", &Plan::target, "Where it runs, e.g. \"cpu-avx2\" or \"sm_90a\".")
      .def_prop_ro("workspace_bytes", &Plan::workspace_bytes, "Bytes of scratch memory that a run needs.")
      .def_prop_ro("json", &Plan::json,
                   "Target, family and stages; once prepared also where each kernel came from.")
      .def("prepare", &Plan::prepare,
           "Gets every kernel now (compiled in, cached or compiled), so that the first run does not have "
           "to.\n\n"
           "Raises NoKernelError if one is not available.")
      .def(
          "run",
          [](const Plan& self, const nb::args& by_place, nb::handle seed, nb::handle offset,
             nb::handle workspace, nb::handle stream, const nb::kwargs& tensors) {
            if (by_place.size() != 0)
              raise_type("Plan.run takes its arrays by name: plan.run(q=q, k=k, ...)");
            self.run(seed, offset, workspace, stream, tensors);
          },
          nb::arg("by_place"), nb::arg("seed").none() = 0, nb::arg("offset").none() = 0,
          nb::arg("workspace") = nb::none(), nb::arg("stream") = nb::none(), nb::arg("tensors"),
          nb::sig("def run(self, *, seed: object = 0, offset: int = 0, workspace: object = None, "
                  "stream: object = None, **tensors: object) -> None"),
          R"(Runs the plan on existing arrays: plan.run(q=q, k=k, v=v, o=o).

The keywords are the names in plan.problem.tensors, inputs and outputs; axes are in the order of the
problem's layout. Nothing is copied: any strides but negative ones work, as long as the last dimension is
contiguous. Outputs must not share memory with any other array of the call.
seed is an integer or a uint64 array [2] of seed and offset. The global interpreter lock is released while
kernels run. Without a workspace the thread's own is used (kept between calls up to 256 MiB).

On a GPU target all arrays must be on one GPU, and the work is put into a stream: an address, an object that
has cuda_stream or, by default, PyTorch's current stream for its tensors, the stream that
__cuda_array_interface__ names, or CUDA's default stream for other arrays.

Raises InvalidError (a ValueError) with one sentence for an array that does not fit the problem.)")
      .def(
          "__reduce__",
          [](nb::object self) {
            const Plan& plan = nb::cast<const Plan&>(self);
            const PlanOptions& options = plan.options();
            return nb::make_tuple(self.type(), nb::make_tuple(plan.problem(), options.target, options.family,
                                                              options.threads, options.functions));
          },
          nb::sig("def __reduce__(self) -> tuple[type, tuple[object, ...]]"))
      // Answered here, as arrays would compare with each of their elements.
      .def(
          "__eq__", [](nb::handle self, nb::handle other) { return self.is(other); }, nb::arg("other").none(),
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def(
          "__hash__", [](nb::handle self) { return reinterpret_cast<std::intptr_t>(self.ptr()) >> 4; },
          nb::sig("def __hash__(self) -> int"))
      .def("__repr__", [](const Plan& plan) {
        return "regard.Plan('" + nb::cast<const Problem&>(plan.problem()).text() + "')";
      });
  answers_arrays(module.attr("Plan"));

  module.def(
      "explain",
      [](const Problem& problem, nb::handle target, nb::handle family, nb::handle threads,
         nb::handle functions, nb::handle format) {
        const PlanOptions options{target, family, threads, functions};
        const regard_plan_options c = options.c();
        const std::string requested = text_of(format, "format");
        find_bundles();
        return asking_choice([&] {
          return text_from(
              [&](char** text) { return regard_explain(problem.handle(), &c, requested.c_str(), text); });
        });
      },
      nb::arg("problem"), nb::arg("target").none(), nb::arg("family").none(), nb::arg("threads").none(),
      nb::arg("functions").none(), nb::arg("format").none(),
      nb::sig("def explain(problem: Problem, target: str | None, family: str | None, threads: int, "
              "functions: str | None, format: str) -> str"));
  module.def(
      "check",
      [](const Problem& problem, nb::handle seed, nb::handle offset, const nb::dict& tensors) {
        Binding binding(problem);
        binding.bind(tensors);
        binding.draw(seed, offset);
        for (const Binding::Busy& array : binding.busy()) wait_for(array.data, array.stream);
        return text_from(
            [&](char** report) { return regard_check(problem.handle(), &binding.arguments(), report); });
      },
      nb::arg("problem"), nb::arg("seed").none(), nb::arg("offset").none(), nb::arg("tensors"),
      nb::sig("def check(problem: Problem, seed: object, offset: int, tensors: dict[str, object]) -> str"));
  module.def(
      "rerun",
      [](nb::handle folder_given, nb::handle target, nb::handle family, nb::handle threads, bool oracle) {
        const std::string folder = text_of(folder_given, "folder");
        const PlanOptions options{target, family, threads, nb::none()};
        const regard_plan_options c = options.c();
        find_bundles();
        return text_from(
            [&](char** report) { return regard_rerun(folder.c_str(), &c, oracle ? 1 : 0, report); });
      },
      nb::arg("folder"), nb::arg("target").none(), nb::arg("family").none(), nb::arg("threads").none(),
      nb::arg("oracle"),
      nb::sig("def rerun(folder: str, target: str | None, family: str | None, threads: int, oracle: bool) -> "
              "str"));
  module.def(
      "addresses",
      [](const Problem& problem, const nb::dict& tensors) {
        Binding binding(problem);
        binding.bind(tensors);
        return binding.addresses();
      },
      nb::arg("problem"), nb::arg("tensors"),
      nb::sig("def addresses(problem: Problem, tensors: dict[str, object]) -> dict[str, int]"));
}

}  // namespace regard::python
