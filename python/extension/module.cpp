// The module regard._core: the C ABI with a Python interface. Users see python/regard/*.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "bundles.h"
#include "calls.h"
#include "choice.h"
#include "compiler.h"
#include "dlpack.h"
#include "finalizing.h"
#include "interrupt.h"
#include "main_interpreter.h"
#include "plan.h"
#include "problem.h"
#include "refusals.h"
#include "status.h"
#include "values.h"
#include "xla_handlers.h"

namespace nb = nanobind;
using namespace regard::python;

namespace {

// Compilers are also installed as Python packages; the library cannot ask where those are.
void tell_package_folders() {
  std::vector<std::string> folders;
  for (const nb::handle entry : nb::module_::import_("sys").attr("path")) {
    std::string folder;
    if (nb::try_cast(entry, folder) && folder.ends_with("-packages")) folders.push_back(std::move(folder));
  }
  std::vector<const char*> texts;
  for (const std::string& folder : folders) texts.push_back(folder.c_str());
  check(regard_package_folders(texts.data(), std::ssize(folders)));
}

}  // namespace

NB_MODULE(_core_of_main, module) {
  module.doc() = "Binding of Regard's C ABI. Use the package regard.";
  nb::register_exception_translator(hang_at_thread_exit);
  nb::set_leak_warnings(false);  // plans that live until the interpreter ends are not leaks
  declare_problem(module);
  declare_plan(module);
  declare_calls(module);
  declare_choice(module);
  declare_xla_handlers(module);

  tell_package_folders();
  end_compiles_on_interrupt();
  module.attr("VERSION") = regard_version();

  module.def("empty", &empty, nb::arg("shape"), nb::arg("dtype"), nb::arg("zeros"),
             nb::sig("def empty(shape: collections.abc.Sequence[int], dtype: str, zeros: bool) -> object"),
             "A new aligned array for any DLPack consumer.");
  module.def(
      "printable", [](const std::string& sentence) { return regard::printable(sentence); },
      nb::arg("sentence"), nb::sig("def printable(sentence: str) -> str"),
      "The sentence with escapes for characters that a terminal does not show.");
  module.def(
      "gpu_of", [](const std::string& name, nb::handle array) { return gpu_of(array, name.c_str()); },
      nb::arg("name"), nb::arg("array").none(), nb::sig("def gpu_of(name: str, array: object) -> str | None"),
      "The target of the GPU that an array is on, \"cuda\" or \"hip\"; None if it is on none. The name is "
      "for "
      "messages.");
  module.def(
      "check_readable",
      [](const std::string& name, nb::handle value) { check_readable(value, name.c_str()); }, nb::arg("name"),
      nb::arg("value").none(), nb::sig("def check_readable(name: str, value: object) -> None"),
      "Refuses a PyTorch tensor whose elements cannot be read.");
  module.def(
      "eagerly", &call_eagerly, nb::arg("function"), nb::arg("arguments"),
      nb::sig("def eagerly(function: collections.abc.Callable[..., typing.Any], *arguments: object) -> "
              "typing.Any"),
      "Calls a function that torch.compile does not trace.");
  module.def(
      "roles",
      [] {
        nb::list names;
        for (int role = 0; role < REGARD_ROLE_COUNT; ++role)
          names.append(nb::str(regard_role_name(static_cast<regard_role>(role))));
        return nb::tuple(names);
      },
      nb::sig("def roles() -> tuple[str, ...]"), "The names of all tensors.");
  module.def("words", [] {
    char* json = nullptr;
    check(regard_problem_words(&json));
    return take_string(json);
  });
  module.def("info", [] {
    find_bundles();
    return text_from(&regard_info);
  });
  module.def(
      "list",
      [](nb::handle target_name, nb::handle profile_name) {
        find_bundles();
        const std::optional<std::string> target = optional_text_of(target_name, "target"),
                                         profile = optional_text_of(profile_name, "profile");
        return text_from([&](char** json) {
          return regard_list(target ? target->c_str() : nullptr, profile ? profile->c_str() : nullptr, json);
        });
      },
      nb::arg("target").none(), nb::arg("profile").none(),
      nb::sig("def list(target: str | None, profile: str | None) -> str"));
  module.def(
      "add_bundle",
      [](nb::handle path_given) {
        const std::string path = text_of(path_given, "path");
        check(regard_bundle_add(path.c_str()));
      },
      nb::arg("path"), nb::sig("def add_bundle(path: str) -> None"));
  module.def(
      "add_package_bundle",
      [](nb::handle path_given) {
        const std::string path = text_of(path_given, "path");
        check(regard_package_bundle(path.c_str()));
      },
      nb::arg("path"), nb::sig("def add_package_bundle(path: str) -> None"),
      "The bundle of an installed package.");
  module.def("find_bundles", &find_bundles, nb::sig("def find_bundles() -> None"),
             "Adds the bundles of installed packages, once.");
  module.def(
      "cache",
      [](nb::handle verb) {
        const std::string word = text_of(verb, "verb");
        return text_from([&](char** json) { return regard_cache(word.c_str(), json); });
      },
      nb::arg("verb").none(), nb::sig("def cache(verb: str) -> str"));
}

extern "C" NB_EXPORT PyObject* PyInit__core();
extern "C" PyObject* PyInit__core() {
  return of_main_interpreter(PyInit__core_of_main());
}
