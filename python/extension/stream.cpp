#include "stream.h"

#include <cstdint>
#include <optional>
#include <string>

#include "cuda_array.h"
#include "foreign.h"
#include "refusals.h"
#include "status.h"
#include "unlocked.h"
#include "values.h"

namespace regard::python {

void* stream_of(nb::handle stream, nb::handle q) {
  nb::object given = nb::borrow(stream);
  if (given.is_none()) {
    if (!is_torch(q)) return nullptr;
    if (const auto view = view_of_torch(q, Source::call)) {  // as it was bound before
      if (const std::optional<void*> current = torch_stream(view->device_number)) return *current;
    }
    const nb::object torch = nb::module_::import_("torch"), device = q.attr("device");
    // torch.cuda.current_stream makes an object of its number, which takes ten times as long.
    if (has(torch.attr("_C"), "_cuda_getCurrentRawStream"))
      given = torch.attr("_C").attr("_cuda_getCurrentRawStream")(device.attr("index"));
    else
      given = torch.attr("cuda").attr("current_stream")(device);
  }
  if (has(given, "cuda_stream")) given = given.attr("cuda_stream");
  if (has(given, "__cuda_stream__"))
    given = nb::borrow(nb::cast<nb::tuple>(given.attr("__cuda_stream__")())[1]);
  check_readable(given, "stream");
  std::uintptr_t address = 0;
  const nb::object whole =
      PyBool_Check(given.ptr()) != 0 ? nb::object() : nb::steal(PyNumber_Index(given.ptr()));
  forget_error();
  if (!whole.is_valid() || !nb::try_cast(whole, address)) {
    raise(REGARD_INVALID,
          "stream is " +
              (PyLong_Check(given.ptr()) != 0 ? nb::cast<std::string>(nb::repr(given)) : type_of(given)) +
              "; it must be the address of a CUDA stream, or an object that has cuda_stream");
  }
  return reinterpret_cast<void*>(address);
}

void wait_for(const void* memory, void* stream) {
  regard_status status;
  {
    const Unlocked unlocked;
    status = regard_memory_wait(memory, stream);
  }
  check(status);
}

bool wait_for_others(const std::vector<Binding::Busy>& arrays, void* queue) {
  bool waited = false;
  for (const Binding::Busy& array : arrays) {
    if (is_same_stream(array.stream, queue)) continue;
    wait_for(array.data, array.stream);
    waited = true;
  }
  return waited;
}

}  // namespace regard::python
