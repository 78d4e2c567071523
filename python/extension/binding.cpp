#include "binding.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "cuda_array.h"
#include "dlpack.h"
#include "dtypes.h"
#include "foreign.h"
#include "refusals.h"
#include "roles.h"
#include "status.h"
#include "values.h"

namespace regard::python {
namespace {

/// Four dimensions, following the broadcasting rules of array libraries.
ArrayView with_leading_ones(ArrayView view) {
  for (; view.rank < 4; ++view.rank) {
    std::copy_backward(view.shape.begin(), view.shape.end() - 1, view.shape.end());
    std::copy_backward(view.strides.begin(), view.strides.end() - 1, view.strides.end());
    view.shape[0] = 1, view.strides[0] = 0;
  }
  return view;
}

alignas(64) char nothing[64];  // what empty arrays without memory point to: a null pointer would mean absent

}  // namespace

void Binding::bind(const nb::dict& arrays) {
  refuse_traced({arrays});
  for (auto [key, value] : arrays) {
    Py_ssize_t size = 0;
    const char* name = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    if (name == nullptr) throw nb::python_error();
    if (value.is_none()) continue;
    const regard_role role = role_from_name({name, static_cast<std::size_t>(size)});
    if (role == REGARD_ROLE_COUNT) {
      std::string sentence = "unknown tensor " + in_quotes(text_of(key, "a tensor's name")) + "; tensors are";
      for (int known = 0; known < REGARD_ROLE_COUNT; ++known)
        sentence += std::string(known != 0 ? ", " : " ") + regard_role_name(static_cast<regard_role>(known));
      raise(REGARD_INVALID, sentence);
    }
    bind(role, value);
  }
}

void Binding::bind(regard_role role, nb::handle array) {
  if (const std::optional<ArrayView> known = view_of_torch(array); known && known->rank > 0)
    return bind(role, *known);
  const std::string named = name_for_messages(role, problem_.handle());
  const char* const name = named.c_str();
  const Problem::Expected& expected = problem_.expected(role);
  const bool written = expected.use == REGARD_OUTPUT || expected.use == REGARD_INPUT_OUTPUT;
  if (expected.dtype == REGARD_INT32 && (PyList_Check(array.ptr()) != 0 || PyTuple_Check(array.ptr()) != 0))
    array = made_.emplace_back(array_of_list(array, name));
  else if (expected.dtype == REGARD_INT32 && !nb::ndarray_check(array) && !is_cuda_array(array))
    raise_type(std::string(name) + " is " + type_of(array) +
               "; it must be an array or a list of whole numbers");
  bind(role, view_of(array, name, written));
}

void Binding::bind(regard_role role, const ArrayView& given) {
  const ArrayView view = role == REGARD_BIAS || role == REGARD_BITS ? with_leading_ones(given) : given;
  const auto name = [&] { return name_for_messages(role, problem_.handle()); };  // which only messages need
  const bool host = view.device == nb::device::cpu::value;
  if (view.flaw != Flaw::none || is_nowhere(view.data)) refuse_flaw(view, name().c_str());
  if (place_ == Place::host && !host)
    raise(REGARD_INVALID, name() +
                              " is not in host memory: CPU targets take arrays on the CPU; target='cuda' "
                              "and target='hip' take them on the GPU");
  if (place_ == Place::gpu && host)
    raise(REGARD_INVALID,
          name() + " is in host memory: GPU targets take arrays on the GPU; copy it there first");

  const regard_dtype expected = problem_.expected(role).dtype;
  if (host && expected == REGARD_INT32 && is_int64(view.type) && !is_captured(role)) {
    regard_tensor of_problem{};
    check(regard_problem_tensor(problem_.handle(), role, nullptr, &of_problem));
    return bind(role, narrowed(view, of_problem, regard_role_name(role), narrowed_.emplace_back()));
  }
  regard_tensor& tensor = arguments_.tensor[role];
  tensor.data = view.data;
  if (tensor.data == nullptr) tensor.data = nothing;
  tensor.dtype = dtype_of(view.type, expected, role);
  tensor.rank = view.rank;
  const bool reordered = follows_layout(role, view.rank);
  for (int axis = 0; axis < view.rank; ++axis) {
    const int from = reordered ? problem_.order()[axis] : axis;
    tensor.shape[axis] = view.shape[from];
    tensor.strides[axis] = view.strides[from];
  }
}

ArrayView Binding::view_of(nb::handle array, const char* name, bool written) {
  if (const std::optional<ArrayView> known = view_of_torch(array); known && known->rank > 0) return *known;
  const bool torch = is_torch(array);
  if (torch && has_own_functions_torch(array))
    raise(REGARD_INVALID,
          std::string(name) + " is a tensor " + type_of(array) +
              ", whose functions are its own and whose memory need not hold its elements; pass "
              "a plain tensor");
  if (torch && is_lazy_torch(array)) {
    // On a GPU the copy would be made in PyTorch's stream, and the call may run in another one.
    if (written || gpu_of(array, name) != nullptr)
      raise(REGARD_INVALID,
            std::string(name) +
                " has PyTorch's negative or conjugate bit set, so its elements are not what its memory "
                "holds; pass " +
                name + ".resolve_neg()");
    return view_of(made_.emplace_back(resolved_torch(array)), name, written);
  }
  if (has(array, "requires_grad") && nb::cast<bool>(nb::bool_(array.attr("requires_grad")))) {
    ArrayView refused;
    refused.flaw = Flaw::requires_gradient;
    return refused;
  }
  if (is_cuda_array(array)) {
    const CudaArray known = cuda_array(array, name);
    if (written && known.read_only) refuse_to_write(name);
    if (known.stream && known.view.data != nullptr) busy_.push_back({known.view.data, *known.stream});
    return known.view;
  }
  if (has(array, "mask") && has(array, "fill_value"))
    raise(REGARD_INVALID, std::string(name) +
                              " is a masked array, and tensors of attention have no mask of valid elements; "
                              "pass its data, or filled()");
  auto [view, owner] = import_array(array, name, written);
  owners_.push_back(std::move(owner));
  if (torch) view.flaw = flaw_of_torch(array, view);
  return view;
}

void Binding::draw(nb::handle seed, nb::handle offset) {
  // Arrays look like an index as well, but have a length, which NumPy's numbers do not.
  const bool number = PyIndex_Check(seed.ptr()) != 0 && !has(seed, "__len__");
  if (!number && !seed.is_none()) bind(REGARD_SEED, seed);
  arguments_.offset = unsigned_of(offset, "offset");
  if (number) arguments_.seed = unsigned_of(seed, "seed");
}

void Binding::use(nb::handle workspace) {
  if (workspace.is_none() || is_torch(workspace) || !is_cuda_array(workspace)) return;
  const CudaArray found = cuda_array(workspace, "workspace");
  if (found.stream && found.view.data != nullptr) busy_.push_back({found.view.data, *found.stream});
}

nb::dict Binding::addresses() const {
  nb::dict result;
  for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
    const void* data = arguments_.tensor[role].data;
    const char* name = regard_role_name(static_cast<regard_role>(role));
    if (data != nullptr) result[name] = nb::int_(reinterpret_cast<std::uintptr_t>(data));
  }
  return result;
}

}  // namespace regard::python
