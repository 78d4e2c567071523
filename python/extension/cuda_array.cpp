#include "cuda_array.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "foreign.h"
#include "regard/regard.h"
#include "status.h"
#include "values.h"

namespace regard::python {
namespace {

using nb::dlpack::dtype_code;

constexpr const char* attribute = "__cuda_array_interface__";

/// The entries of one array's interface, read strictly.
class Interface {
 public:
  Interface(nb::handle array, const char* name) : name_(name), entries_(array.attr(attribute)) {
    if (PyDict_Check(entries_.ptr()) == 0) refuse("is " + type_of(entries_) + "; it must be a dict");
  }

  [[noreturn]] void refuse(const std::string& what) const {
    raise(REGARD_INVALID, std::string(name_) + "'s " + attribute + " " + what);
  }

  /// None if the entry is missing.
  nb::handle entry(const char* key) const {
    PyObject* const found = PyDict_GetItemString(entries_.ptr(), key);
    return found != nullptr ? nb::handle(found) : nb::handle(Py_None);
  }

  nb::handle tuple(const char* key) const {
    const nb::handle found = entry(key);
    if (PyTuple_Check(found.ptr()) == 0) refuse(std::string("has no tuple '") + key + "'");
    return found;
  }

  std::int64_t number(nb::handle value, const char* key) const {
    const nb::object whole = nb::steal(PyNumber_Index(value.ptr()));
    const std::int64_t number = whole.is_valid() ? PyLong_AsLongLong(whole.ptr()) : 0;
    if (PyErr_Occurred() != nullptr) {
      forget_error();
      refuse(std::string("has a '") + key + "' that is not a whole number below 2^63");
    }
    return number;
  }

 private:
  const char* name_;
  nb::object entries_;
};

/// NumPy's type strings: byte order, kind, bytes.
nb::dlpack::dtype type_of_text(const Interface& interface) {
  const nb::handle entry = interface.entry("typestr");
  const std::string text = text_of(entry, "a typestr");
  const std::string problem = "has the typestr '" + text + "'";
  if (text.size() != 3 || text[2] < '1' || text[2] > '8')
    interface.refuse(problem + ", which no tensor of attention has");
  const int bytes = text[2] - '0';
  if (text[0] == '>' && bytes > 1) interface.refuse(problem + ": pass an array in native byte order");
  const auto type = [bytes](dtype_code code) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * bytes), 1};
  };
  switch (text[1]) {
    case 'f':
      return type(dtype_code::Float);
    case 'i':
      return type(dtype_code::Int);
    case 'u':
      return type(dtype_code::UInt);
    case 'b':
      return type(dtype_code::Bool);
    case 'c':
      return type(dtype_code::Complex);
    case 'V':
      interface.refuse(
          problem +
          ", and the interface has none for bfloat16 and 8-bit floats: pass the bits as uint16 or "
          "uint8 with dtype='bf16' or dtype='fp8', or the array through DLPack");
    default:
      interface.refuse(problem + ", which no tensor of attention has");
  }
}

void read_shape(const Interface& interface, ArrayView& view) {
  const nb::handle shape = interface.tuple("shape");
  const Py_ssize_t rank = PyTuple_GET_SIZE(shape.ptr());
  if (rank < 1 || rank > 4)
    interface.refuse("has " + std::to_string(rank) + " dimensions; tensors have 1 to 4");
  view.rank = static_cast<int>(rank);
  for (int i = 0; i < view.rank; ++i)
    view.shape[static_cast<std::size_t>(i)] = interface.number(PyTuple_GET_ITEM(shape.ptr(), i), "shape");
}

/// Strides in bytes, row-major if there are none.
void read_strides(const Interface& interface, ArrayView& view) {
  if (interface.entry("strides").is_none()) {
    std::int64_t step = 1;
    for (int axis = view.rank - 1; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      view.strides[i] = step;
      if (__builtin_mul_overflow(step, view.shape[i], &step)) interface.refuse("has 2^63 elements or more");
    }
    return;
  }
  const nb::handle strides = interface.tuple("strides");
  if (PyTuple_GET_SIZE(strides.ptr()) != view.rank)
    interface.refuse("has another number of strides than of dimensions");
  const int bytes = view.type.bits / 8;
  for (int axis = 0; axis < view.rank; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t stride = interface.number(PyTuple_GET_ITEM(strides.ptr(), axis), "strides");
    if (stride % bytes != 0 && view.shape[i] > 1)
      interface.refuse("has a stride of " + std::to_string(stride) +
                       " bytes, which is not a whole number of elements");
    view.strides[i] = stride / bytes;
  }
}

std::optional<void*> stream_of(const Interface& interface) {
  const nb::handle stream = interface.entry("stream");
  if (stream.is_none()) return {};
  const std::int64_t number = interface.number(stream, "stream");
  if (number == 0)
    interface.refuse(
        "has the stream 0, which the interface leaves open; 1 is CUDA's default stream, 2 the thread's");
  return reinterpret_cast<void*>(number);
}

}  // namespace

bool is_cuda_array(nb::handle array) {
  return !has(array, "__dlpack__") && has(array, attribute);
}

CudaArray cuda_array(nb::handle array, const char* name) {
  const Interface interface(array, name);
  const std::int64_t version = interface.number(interface.entry("version"), "version");
  if (version != 2 && version != 3)
    interface.refuse("has version " + std::to_string(version) + "; 2 and 3 are supported");
  if (!interface.entry("mask").is_none())
    interface.refuse("has a mask of valid elements, which attention does not support");
  CudaArray found;
  found.view.type = type_of_text(interface);
  read_shape(interface, found.view);
  read_strides(interface, found.view);
  const nb::handle data = interface.tuple("data");
  if (PyTuple_GET_SIZE(data.ptr()) != 2) interface.refuse("has no pair 'data' of address and read-only flag");
  found.view.data = reinterpret_cast<void*>(interface.number(PyTuple_GET_ITEM(data.ptr(), 0), "data"));
  found.view.device = nb::device::cuda::value;  // the library asks the driver which one
  found.read_only = nb::cast<bool>(nb::bool_(nb::handle(PyTuple_GET_ITEM(data.ptr(), 1))));
  if (version >= 3) found.stream = stream_of(interface);
  return found;
}

bool is_same_stream(void* one, void* other) {
  const auto number = [](void* stream) {
    const auto address = reinterpret_cast<std::uintptr_t>(stream);
    return address == 0 ? std::uintptr_t{1} : address;  // the legacy default stream
  };
  return number(one) == number(other);
}

}  // namespace regard::python
