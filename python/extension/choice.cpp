#include "choice.h"

#include <optional>
#include <string>
#include <utility>

#include "finalizing.h"
#include "regard/regard.h"
#include "status.h"
#include "values.h"

namespace regard::python {
namespace {

/// Protected by the global interpreter lock; never destroyed, as threads may ask it until the very end.
nb::object& function() {
  static nb::object* const own = new nb::object();
  return *own;
}

constinit thread_local nb::python_error* raised = nullptr;

/// Plans are made with the lock and without it.
class Locked {
 public:
  Locked() : state_(hang_if_finalizing([] { return PyGILState_Ensure(); })) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  const PyGILState_STATE state_;
};

const char* ask(void*, const regard_problem* problem, const char* target, const char* const* names,
                const double* seconds, int64_t count) {
  static thread_local std::string answer;
  if (is_finalizing()) return nullptr;
  const Locked lock;
  forget_choice_error();
  try {
    const nb::object asked = function();
    if (!asked.is_valid()) return nullptr;
    nb::dict candidates;
    for (int64_t i = 0; i < count; ++i) candidates[nb::str(names[i])] = seconds[i];
    const nb::object own = nb::module_::import_("regard").attr("Problem")(regard_problem_text(problem));
    const nb::object chosen = asked(own, nb::str(target), candidates);
    if (chosen.is_none()) return nullptr;
    answer = text_of(chosen, "the choice of kernels");
    if (answer.empty())
      raise(REGARD_INVALID, "the choice of kernels is an empty text; return None for no choice");
    return answer.c_str();
  } catch (nb::python_error& error) {
    raised = new nb::python_error(std::move(error));
    return "";
  }
}

void choose_by(nb::handle given) {
  if (!given.is_none() && PyCallable_Check(given.ptr()) == 0)
    raise_type("function is " + type_of(given) + "; choose_by takes a function, or None");
  function() = given.is_none() ? nb::object() : nb::borrow(given);
  check(regard_choose_by(given.is_none() ? nullptr : ask, nullptr));
}

}  // namespace

void forget_choice_error() {
  delete std::exchange(raised, nullptr);
}

void throw_choice_error() {
  if (raised == nullptr) return;
  const nb::python_error error(*raised);
  forget_choice_error();
  throw nb::python_error(error);
}

void declare_choice(nb::module_& module) {
  module.def(
      "choose_by", &choose_by, nb::arg("function").none(),
      nb::sig("def choose_by(function: collections.abc.Callable[[Problem, str, dict[str, float]], str | "
              "None] | None) -> None"));
  module.def(
      "use_tuning",
      [](nb::handle given) {
        const std::optional<std::string> path = optional_text_of(given, "path");
        check(regard_use_tuning(path ? path->c_str() : nullptr));
      },
      nb::arg("path").none(), nb::sig("def use_tuning(path: str | None) -> None"));
}

}  // namespace regard::python
