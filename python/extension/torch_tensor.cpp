#include "torch_tensor.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtypes.h"
#include "foreign.h"

namespace regard::python {
namespace {

/// The C functions that a tensor class exposes: the start of DLPack's struct DLPackExchangeAPI.
struct Exchange {
  std::uint32_t major, minor;
  const Exchange* older;
  // Not used: a new tensor, a PyTorch tensor as a managed DLPack tensor, and the reverse.
  void *allocate, *to_dlpack, *from_dlpack;
  /// A view that is valid as long as the array; 0, or a Python error is set.
  int (*view)(void* array, nb::dlpack::dltensor* view);
  int (*current_stream)(std::int32_t device, std::int32_t number, void** stream);
};

/// nullptr if this version of PyTorch has none, or none of this major version.
const Exchange* exchange_of(nb::handle tensor_class) {
  constexpr std::uint32_t known_major = 1;
  const nb::object capsule = nb::getattr(tensor_class, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* found =
      static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (found != nullptr && found->major != known_major) found = found->older;
  return found != nullptr && found->view != nullptr && found->current_stream != nullptr ? found : nullptr;
}

/// Attributes of torch, made at the first tensor and never freed: modules live to the end.
struct Torch {
  PyObject* tensor;          // the class
  int gpu;                   // DLPack's type of its GPUs, which are "cuda" in AMD builds, too
  const Exchange* exchange;  // or nullptr
  PyObject* strided;         // the layout
  PyObject *empty_like, *zeros_like;
  PyObject* uint8;
  PyObject* forward_gradients;  // the module
  // Functions, nullptr if this version does not have them.
  PyObject *tracing_state, *function_mode_enabled, *count_of_dispatch_modes;
  // Interned names.
  PyObject *current_level, *data_ptr, *dtype, *element_size, *is_conj, *is_cpu, *is_cuda, *is_neg, *layout,
      *nbytes, *new_empty, *new_zeros, *requires_grad, *shape, *storage_offset, *stride, *unpack_dual,
      *untyped_storage;

  static PyObject* function(nb::handle module, const char* name) {
    const nb::object found = nb::getattr(module, name, nb::none());
    return found.is_none() ? nullptr : nb::object(found).release().ptr();
  }

  explicit Torch(nb::module_ module)
      : tensor(nb::object(module.attr("Tensor")).release().ptr()),
        gpu(module.attr("version").attr("hip").is_none() ? nb::device::cuda::value : nb::device::rocm::value),
        exchange(exchange_of(tensor)),
        strided(nb::object(module.attr("strided")).release().ptr()),
        empty_like(nb::object(module.attr("empty_like")).release().ptr()),
        zeros_like(nb::object(module.attr("zeros_like")).release().ptr()),
        uint8(nb::object(module.attr("uint8")).release().ptr()),
        forward_gradients(nb::module_::import_("torch.autograd.forward_ad").release().ptr()),
        tracing_state(function(module.attr("_C"), "_get_tracing_state")),
        function_mode_enabled(function(module.attr("_C"), "_is_torch_function_mode_enabled")),
        count_of_dispatch_modes(function(module.attr("_C"), "_len_torch_dispatch_stack")),
        current_level(PyUnicode_InternFromString("_current_level")),
        data_ptr(PyUnicode_InternFromString("data_ptr")),
        dtype(PyUnicode_InternFromString("dtype")),
        element_size(PyUnicode_InternFromString("element_size")),
        is_conj(PyUnicode_InternFromString("is_conj")),
        is_cpu(PyUnicode_InternFromString("is_cpu")),
        is_cuda(PyUnicode_InternFromString("is_cuda")),
        is_neg(PyUnicode_InternFromString("is_neg")),
        layout(PyUnicode_InternFromString("layout")),
        nbytes(PyUnicode_InternFromString("nbytes")),
        new_empty(PyUnicode_InternFromString("new_empty")),
        new_zeros(PyUnicode_InternFromString("new_zeros")),
        requires_grad(PyUnicode_InternFromString("requires_grad")),
        shape(PyUnicode_InternFromString("shape")),
        storage_offset(PyUnicode_InternFromString("storage_offset")),
        stride(PyUnicode_InternFromString("stride")),
        unpack_dual(PyUnicode_InternFromString("unpack_dual")),
        untyped_storage(PyUnicode_InternFromString("untyped_storage")) {}
};

/// nullptr as long as torch has not been imported.
const Torch* loaded_torch() {
  static const Torch* torch = nullptr;
  if (torch != nullptr) return torch;
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  if (nb::cast<nb::dict>(modules).contains("torch")) torch = new Torch(nb::module_::import_("torch"));
  return torch;
}

/// nullptr for an array of another class.
const Torch* torch_of(nb::handle array) {
  PyTypeObject* const type = Py_TYPE(array.ptr());
  if (std::string_view(type->tp_name) != "Tensor") return nullptr;
  const Torch* const torch = loaded_torch();
  return torch != nullptr && reinterpret_cast<PyObject*>(type) == torch->tensor ? torch : nullptr;
}

/// Compared by object, as its name is by far the slowest to get; there is one object per type.
std::optional<nb::dlpack::dtype> type_of(nb::handle dtype) {
  static std::vector<std::pair<PyObject*, nb::dlpack::dtype>>& known =
      *new std::vector<std::pair<PyObject*, nb::dlpack::dtype>>;
  for (const auto& [object, type] : known)
    if (object == dtype.ptr()) return type;
  const std::string name = nb::cast<std::string>(nb::str(dtype));  // "torch.float32"
  const auto type = type_named(std::string_view(name).substr(name.find('.') + 1));
  if (type) known.emplace_back(nb::borrow(dtype).release().ptr(), *type);
  return type;
}

/// Invalid if the tensor has no answer; Python's error is set then.
nb::object answer(PyObject* given) {
  if (given == nullptr) pass_on_error();
  return nb::steal(given);
}
nb::object attribute(nb::handle array, PyObject* name) {
  return answer(PyObject_GetAttr(array.ptr(), name));
}
nb::object called(nb::handle array, PyObject* name) {
  return answer(PyObject_CallMethodNoArgs(array.ptr(), name));
}
bool is(nb::handle array, PyObject* name) {
  return attribute(array, name).ptr() == Py_True;
}
bool says(nb::handle array, PyObject* name) {
  return called(array, name).ptr() == Py_True;
}

/// The number that a method returns; less than 0 if it fails.
std::int64_t number(nb::handle object, PyObject* name) {
  const nb::object given = called(object, name);
  return given.is_valid() ? PyLong_AsLongLong(given.ptr()) : -1;
}

/// The integers of a tuple; nothing if it has other elements.
std::optional<std::vector<std::int64_t>> numbers(nb::handle tuple) {
  if (!tuple.is_valid() || !PyTuple_Check(tuple.ptr())) return {};
  std::vector<std::int64_t> result;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.ptr()); ++i) {
    PyObject* const entry = PyTuple_GET_ITEM(tuple.ptr(), i);
    if (!PyLong_Check(entry)) return {};
    result.push_back(PyLong_AsLongLong(entry));
  }
  return result;
}

/// From the start of its storage to past the last element, in bytes.
std::int64_t reach(const ArrayView& view, std::int64_t offset) {
  std::int64_t elements = offset + 1;
  for (int axis = 0; axis < view.rank; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    elements += (view.shape[i] - 1) * view.strides[i];
  }
  return elements * (view.type.bits / 8);
}

/// A storage may have been freed or shrunk while tensors still refer to it.
bool has_memory(nb::handle array, const ArrayView& view, const Torch& torch) {
  if (is_empty(view)) return true;
  if (is_nowhere(view.data)) return false;
  const nb::object storage = called(array, torch.untyped_storage);
  if (!storage.is_valid()) return true;
  const std::int64_t bytes = number(storage, torch.nbytes), offset = number(array, torch.storage_offset);
  return bytes < 0 || offset < 0 || reach(view, offset) <= bytes;
}

/// The same for a tensor of any rank. Tensors without such numbers (sparse, not yet initialised, with
/// symbolic sizes) raise their own error when they are read.
bool has_memory(nb::handle tensor, const Torch& torch) {
  const auto sizes = numbers(attribute(tensor, torch.shape));
  if (!sizes || std::ranges::find(*sizes, 0) != sizes->end()) return true;
  const auto strides = numbers(called(tensor, torch.stride));
  if (!strides || strides->size() != sizes->size()) return true;
  const nb::object storage = called(tensor, torch.untyped_storage);
  if (!storage.is_valid()) return true;
  const std::int64_t bytes = number(storage, torch.nbytes), offset = number(tensor, torch.storage_offset),
                     element = number(tensor, torch.element_size);
  std::int64_t elements = offset + 1;
  for (std::size_t axis = 0; axis < sizes->size(); ++axis)
    elements += ((*sizes)[axis] - 1) * (*strides)[axis];
  return bytes < 0 || offset < 0 || element < 0 || elements * element <= bytes;
}

/// Outside of forward_ad.dual_level() no tensor has one.
bool has_tangent(nb::handle array, const Torch& torch) {
  PyObject* const level =
      PyDict_GetItemWithError(PyModule_GetDict(torch.forward_gradients), torch.current_level);
  if (level == nullptr || PyLong_AsLong(level) < 0) return false;
  const nb::object pair =
      answer(PyObject_CallMethodOneArg(torch.forward_gradients, torch.unpack_dual, array.ptr()));
  return pair.is_valid() && PyTuple_Check(pair.ptr()) && PyTuple_GET_SIZE(pair.ptr()) == 2 &&
         PyTuple_GET_ITEM(pair.ptr(), 1) != Py_None;
}

Flaw flaw_of(nb::handle array, const ArrayView& view, const Torch& torch, Source source = Source::caller) {
  if (source == Source::call) return Flaw::none;
  if (source == Source::caller && is(array, torch.requires_grad)) return Flaw::requires_gradient;
  if (has_tangent(array, torch)) return Flaw::tangent;
  return has_memory(array, view, torch) ? Flaw::none : Flaw::no_memory;
}

/// A tuple of `rank` integers.
bool read(nb::handle tuple, int rank, std::array<std::int64_t, 4>& to) {
  if (!tuple.is_valid() || !PyTuple_Check(tuple.ptr()) || PyTuple_GET_SIZE(tuple.ptr()) != rank) return false;
  for (int i = 0; i < rank; ++i) {
    to[static_cast<std::size_t>(i)] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), i));
    if (PyErr_Occurred() != nullptr) return false;
  }
  return true;
}

/// Errors here give false, as unusual tensors do: DLPack then reports them.
bool view_by_exchange(nb::handle array, const Torch& torch, ArrayView& view) {
  nb::dlpack::dltensor found;
  if (torch.exchange->view(array.ptr(), &found) != 0 || found.ndim > 4) return false;
  view.data = static_cast<char*>(found.data) + found.byte_offset;
  view.type = found.dtype;
  view.device = found.device.device_type;
  view.device_number = found.device.device_id;
  view.rank = found.ndim;
  std::copy_n(found.shape, found.ndim, view.shape.begin());
  std::copy_n(found.strides, found.ndim, view.strides.begin());
  return view.device == nb::device::cpu::value || view.device == torch.gpu;
}

bool view_by_methods(nb::handle array, const Torch& torch, ArrayView& view) {
  if (attribute(array, torch.layout).ptr() != torch.strided) return false;
  if (is(array, torch.is_cuda))
    view.device = torch.gpu;
  else if (is(array, torch.is_cpu))
    view.device = nb::device::cpu::value;
  else
    return false;
  const nb::object dtype = attribute(array, torch.dtype);
  const auto type = dtype.is_valid() ? type_of(dtype) : std::nullopt;
  if (!type) return false;
  view.type = *type;
  const nb::object shape = attribute(array, torch.shape);
  if (!shape.is_valid() || !PyTuple_Check(shape.ptr()) || PyTuple_GET_SIZE(shape.ptr()) > 4) return false;
  view.rank = static_cast<int>(PyTuple_GET_SIZE(shape.ptr()));
  if (!read(shape, view.rank, view.shape)) return false;
  if (!read(called(array, torch.stride), view.rank, view.strides)) return false;
  const nb::object address = called(array, torch.data_ptr);
  if (!address.is_valid()) return false;
  view.data = PyLong_AsVoidPtr(address.ptr());
  return true;
}

std::optional<ArrayView> view(nb::handle array, const Torch& torch, Source source) {
  ArrayView view;
  const bool seen =
      torch.exchange != nullptr ? view_by_exchange(array, torch, view) : view_by_methods(array, torch, view);
  if (!seen || called(array, torch.is_neg).ptr() != Py_False) return {};
  view.flaw = flaw_of(array, view, torch, source);
  return view;
}

}  // namespace

bool is_contiguous(const ArrayView& view) {
  std::int64_t expected = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (view.strides[i] != expected && view.shape[i] != 1) return false;
    expected *= view.shape[i];
  }
  return true;
}

bool is_empty(const ArrayView& view) {
  return std::find(view.shape.begin(), view.shape.begin() + view.rank, 0) != view.shape.begin() + view.rank;
}

bool is_nowhere(const void* data) {
  constexpr std::uintptr_t first_page = 4096;  // which no system maps
  return reinterpret_cast<std::uintptr_t>(data) < first_page;
}

bool has_memory_torch(nb::handle tensor) {
  const bool has = has_memory(tensor, *loaded_torch());
  forget_error();  // of a subclass that does not support this
  return has;
}

Flaw flaw_of_torch(nb::handle array, const ArrayView& view) {
  const Flaw flaw = flaw_of(array, view, *loaded_torch());
  forget_error();  // of a subclass that does not support this
  return flaw;
}

bool is_lazy_torch(nb::handle array) {
  const Torch& torch = *loaded_torch();
  const bool lazy = says(array, torch.is_neg) || says(array, torch.is_conj);
  forget_error();
  return lazy;
}

nb::object resolved_torch(nb::handle lazy) {
  return lazy.attr("resolve_conj")().attr("resolve_neg")();
}

std::optional<ArrayView> view_of_torch(nb::handle array, Source source) {
  const Torch* const torch = torch_of(array);
  if (torch == nullptr) return {};
  std::optional<ArrayView> found = view(array, *torch, source);
  // If the tensor cannot be viewed (under torch.func transforms it has no memory, say), DLPack refuses it by
  // name.
  if (PyErr_Occurred() != nullptr) {
    forget_error();
    return {};
  }
  return found;
}

std::optional<void*> torch_stream(int device_number) {
  const Torch* const torch = loaded_torch();
  if (torch == nullptr || torch->exchange == nullptr) return {};
  void* stream = nullptr;
  if (torch->exchange->current_stream(torch->gpu, device_number, &stream) != 0) throw nb::python_error();
  return stream;
}

nb::object torch_memory(nb::handle like, nb::handle shape, nb::handle dtype, bool zeros) {
  const Torch& torch = *loaded_torch();
  const nb::handle method = zeros ? torch.new_zeros : torch.new_empty;
  if (dtype.is_none()) {
    nb::object memory = nb::steal(PyObject_CallMethodOneArg(like.ptr(), method.ptr(), shape.ptr()));
    if (!memory.is_valid()) throw nb::python_error();
    return memory;
  }
  return nb::getattr(like, method)(shape, nb::arg("dtype") = dtype);
}

nb::object torch_expanded(nb::handle like, nb::handle shape, nb::handle dtype) {
  if (PySequence_Contains(shape.ptr(), nb::int_(0).ptr()) != 0)
    return torch_memory(like, shape, dtype, false);
  return torch_memory(like, nb::make_tuple(1), dtype, false).attr("expand")(shape);
}

nb::object torch_memory_like(nb::handle expanded, bool zeros) {
  const Torch& torch = *loaded_torch();
  const nb::handle function = zeros ? torch.zeros_like : torch.empty_like;
  nb::object memory = nb::steal(PyObject_CallOneArg(function.ptr(), expanded.ptr()));
  if (!memory.is_valid()) throw nb::python_error();
  return memory;
}

nb::object torch_bytes(nb::handle like, std::int64_t bytes, void*& address) {
  const Torch& torch = *loaded_torch();
  nb::object memory = torch_memory(like, nb::make_tuple(bytes), torch.uint8, false);
  const nb::object number = called(memory, torch.data_ptr);
  if (!number.is_valid()) throw nb::python_error();
  address = PyLong_AsVoidPtr(number.ptr());
  return memory;
}

bool torch_is_tracing() {
  const Torch* const torch = loaded_torch();
  if (torch == nullptr) return false;
  const auto answer = [](PyObject* function, PyObject* otherwise) {
    if (function == nullptr) return nb::borrow(otherwise);
    nb::object given = nb::steal(PyObject_CallNoArgs(function));
    if (!given.is_valid()) throw nb::python_error();
    return given;
  };
  if (!answer(torch->tracing_state, Py_None).is_none()) return true;
  // Asking which modes are on costs more than asking whether any is. Before dispatch, the tracer's mode is a
  // function mode.
  if (answer(torch->function_mode_enabled, Py_False).ptr() == Py_False &&
      PyObject_IsTrue(answer(torch->count_of_dispatch_modes, Py_False).ptr()) == 0)
    return false;
  PyObject* const tracer =
      PyDict_GetItemString(PyImport_GetModuleDict(), "torch.fx.experimental.proxy_tensor");
  return tracer != nullptr && has(tracer, "get_proxy_mode") &&
         !nb::handle(tracer).attr("get_proxy_mode")().is_none();
}

bool is_torch_proxy(nb::handle value) {
  PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.fx.proxy");
  if (module == nullptr || !has(module, "Proxy")) return false;
  const nb::object proxy = nb::handle(module).attr("Proxy");
  // By its type: a proxy answers every question about itself with another proxy.
  return PyType_Check(proxy.ptr()) != 0 &&
         PyType_IsSubtype(Py_TYPE(value.ptr()), reinterpret_cast<PyTypeObject*>(proxy.ptr())) != 0;
}

bool is_torch(nb::handle array) {
  const Torch* const torch = loaded_torch();
  if (torch == nullptr) return false;
  return PyType_IsSubtype(Py_TYPE(array.ptr()), reinterpret_cast<PyTypeObject*>(torch->tensor)) != 0;
}

bool has_own_functions_torch(nb::handle tensor) {
  const nb::handle plain = loaded_torch()->tensor, own = tensor.type();
  const auto function = [](nb::handle kind) {
    nb::object bound = kind.attr("__torch_function__");
    return nb::getattr(bound, "__func__", bound);
  };
  const nb::object off = nb::module_::import_("torch._C").attr("_disabled_torch_function_impl");
  const nb::object called = function(own);
  if (!called.is(function(plain)) && !called.is(off)) return true;
  return !own.attr("__torch_dispatch__").is(plain.attr("__torch_dispatch__"));
}

std::optional<int> torch_device(nb::handle array) {
  const Torch* const torch = torch_of(array);
  if (torch == nullptr) return {};
  const nb::object on_gpu = attribute(array, torch->is_cuda);
  if (!on_gpu.is_valid()) {
    forget_error();
    return {};
  }
  return on_gpu.ptr() == Py_True ? torch->gpu : nb::device::cpu::value;
}

}  // namespace regard::python
