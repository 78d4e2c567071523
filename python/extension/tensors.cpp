#include "tensors.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/printable.h"
#include "problem.h"
#include "status.h"
#include "values.h"

namespace regard::python {
namespace {

using nb::dlpack::dtype_code;

struct DTypeRow {
  regard_dtype dtype;
  const char* word;
  dtype_code code;
  int bits;
};
constexpr DTypeRow dtypes[] = {
    {REGARD_FP32, "fp32", dtype_code::Float, 32},
    {REGARD_BF16, "bf16", dtype_code::Bfloat, 16},
    {REGARD_FP16, "fp16", dtype_code::Float, 16},
    {REGARD_FP8, "fp8", static_cast<dtype_code>(10), 8},            // DLPack's float8_e4m3fn
    {REGARD_FP8_E5M2, "fp8_e5m2", static_cast<dtype_code>(12), 8},  // DLPack's float8_e5m2
    {REGARD_INT32, "int32", dtype_code::Int, 32},
    {REGARD_UINT32, "uint32", dtype_code::UInt, 32},
    {REGARD_UINT8, "uint8", dtype_code::UInt, 8},
    {REGARD_UINT64, "uint64", dtype_code::UInt, 64},
};

const DTypeRow& row_of(regard_dtype dtype) {
  for (const DTypeRow& row : dtypes)
    if (row.dtype == dtype) return row;
  return dtypes[0];
}

std::string describe(nb::dlpack::dtype type) {
  const char* kind = "type";
  switch (static_cast<dtype_code>(type.code)) {
    case dtype_code::Int:
      kind = "int";
      break;
    case dtype_code::UInt:
      kind = "uint";
      break;
    case dtype_code::Float:
      kind = "float";
      break;
    case dtype_code::Bfloat:
      kind = "bfloat";
      break;
    case dtype_code::Complex:
      kind = "complex";
      break;
    case dtype_code::Bool:
      return "bool";
    default:
      kind = "float8 or another type of bits: ";
      break;
  }
  return kind + std::to_string(type.bits) + (type.lanes != 1 ? "x" + std::to_string(type.lanes) : "");
}

// Integers may stand for a type that the array library lacks: bf16 and fp8 in NumPy, uint32 and uint64
// elsewhere.
bool stands_for(nb::dlpack::dtype type, const DTypeRow& expected) {
  const auto code = static_cast<dtype_code>(type.code);
  const bool integer = code == dtype_code::Int || code == dtype_code::UInt;
  const bool byte_flag = code == dtype_code::Bool && expected.dtype == REGARD_UINT8;
  const bool needs_storage =
      expected.dtype != REGARD_FP32 && expected.dtype != REGARD_FP16 && expected.dtype != REGARD_INT32;
  return type.bits == expected.bits && type.lanes == 1 && ((integer && needs_storage) || byte_flag);
}

regard_dtype dtype_of(nb::dlpack::dtype type, const DTypeRow& expected, regard_role role) {
  if (stands_for(type, expected)) return expected.dtype;
  for (const DTypeRow& row : dtypes)
    if (static_cast<std::uint8_t>(row.code) == type.code && row.bits == type.bits && type.lanes == 1)
      return row.dtype;
  const char* advice = "";
  const bool boolean = static_cast<dtype_code>(type.code) == dtype_code::Bool;
  if (boolean && (role == REGARD_BITS || role == REGARD_BIAS))
    advice = "; of a boolean mask regard.pack_bits(mask) makes what bits= takes";
  else if (!boolean && expected.dtype == REGARD_INT32)
    advice = "; convert it first, as PyTorch's x.to(torch.int32) does";
  raise(REGARD_INVALID, std::string(regard_role_name(role)) + " has dtype " + describe(type) +
                            " where the problem takes " + expected.word + advice);
}

/// Raises what the array itself does.
bool says_gpu(nb::handle array) {
  if (const std::optional<bool> known = torch_on_gpu(array)) return *known;
  if (!nb::hasattr(array, "__dlpack_device__")) return is_cuda_array(array);
  const nb::object pair = array.attr("__dlpack_device__")();
  const nb::object device = nb::steal(PyNumber_Long(nb::object(pair[0]).ptr()));
  if (!device.is_valid()) throw nb::python_error();
  return PyLong_AsLong(device.ptr()) == nb::device::cuda::value;
}

/// The producer's own reason: "BufferError: ...", without a line's end or a stop.
std::string reason_of(const nb::python_error& error) {
  std::string reason = nb::cast<std::string>(nb::str(error.type().attr("__name__"))) + ": " +
                       nb::cast<std::string>(nb::str(error.value()));
  reason.resize(std::min(reason.find('\n'), reason.size()));
  while (reason.ends_with('.') || reason.ends_with(' ')) reason.pop_back();
  return reason;
}

// nanobind says only that an import failed; the producer's own reason is worth more.
[[noreturn]] void refuse_array(nb::handle array, const char* name) {
  if (!nb::ndarray_check(array))
    raise_type(std::string(name) + " must be a NumPy array, another DLPack array or one that has " +
               "__cuda_array_interface__, but is " + type_of(array));
  const std::string told =
      std::string(name) + " is an array " + type_of(array) + " whose memory cannot be taken through DLPack";
  try {
    const nb::object source = exportable(array);
    if (nb::hasattr(source, "__dlpack__")) source.attr("__dlpack__")();
  } catch (nb::python_error& error) {
    raise_from(error, REGARD_INVALID, told + " (" + reason_of(error) + ")");
  }
  raise(REGARD_INVALID, told +
                            ": its dtype or byte order has no counterpart; pass fp32, bf16, fp16 or fp8 in "
                            "native byte order");
}

/// One with a version tells what is read-only; one without costs less. Older producers know none, and some
/// can only lend a buffer.
nb::object capsule_of(nb::handle array, bool written) {
  const nb::object give = array.attr("__dlpack__");
  for (const bool versioned : {written, !written}) {
    try {
      return versioned ? give(nb::arg("max_version") = nb::make_tuple(1, 0)) : give();
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_BufferError)) throw;
    }
  }
  return nb::borrow(array);
}

template <class Array>
bool import(nb::handle array, Array& result) {
  return nb::try_cast<Array>(array, result, false);
}

/// What a capsule holds from version 1 of DLPack on.
struct Versioned {
  std::uint32_t major, minor;
  void *manager, *deleter;
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};

/// What nanobind reads without a look at it.
void check_capsule(nb::handle capsule, const char* name) {
  const char* const kind = PyCapsule_GetName(capsule.ptr());
  const std::string_view said = kind != nullptr ? kind : "";
  const auto refuse = [name](const std::string& what) { raise(REGARD_INVALID, name + (" is " + what)); };
  if (said.starts_with("used_dltensor"))
    refuse("a DLPack capsule that was taken before; pass the array, or a new capsule of it");
  if (!said.starts_with("dltensor")) return;  // of something else, which nanobind refuses
  const void* const held = PyCapsule_GetPointer(capsule.ptr(), kind);
  const auto* tensor = static_cast<const nb::dlpack::dltensor*>(held);
  if (said == "dltensor_versioned") {
    const auto* versioned = static_cast<const Versioned*>(held);
    if (versioned->major != 1)
      refuse("an array by version " + std::to_string(versioned->major) +
             " of DLPack, and only version 1 is known here");
    tensor = &versioned->tensor;
  }
  if (tensor->ndim > 0 && tensor->shape == nullptr)
    refuse("an array of " + std::to_string(tensor->ndim) + " dimensions whose DLPack capsule has no shape");
}

/// The capsule of an array, or itself where it has none to give and the buffer protocol may do.
nb::object exported(nb::handle array, const char* name, bool written) {
  nb::object source;
  try {
    source = exportable(array);
    if (nb::hasattr(source, "__dlpack__")) source = capsule_of(source, written);
  } catch (nb::python_error&) {
    refuse_array(array, name);
  }
  if (PyCapsule_CheckExact(source.ptr()) != 0) check_capsule(source, name);
  return source;
}

/// Four dimensions, as broadcasting rules of array libraries have it.
ArrayView with_leading_ones(ArrayView view) {
  for (; view.rank < 4; ++view.rank) {
    std::copy_backward(view.shape.begin(), view.shape.end() - 1, view.shape.end());
    std::copy_backward(view.strides.begin(), view.strides.end() - 1, view.strides.end());
    view.shape[0] = 1, view.strides[0] = 0;
  }
  return view;
}

[[noreturn]] void refuse_to_write(const char* name) {
  raise(REGARD_INVALID, std::string(name) + " is written to but its array is read-only");
}

bool is_int64(nb::dlpack::dtype type) {
  return type.code == static_cast<std::uint8_t>(dtype_code::Int) && type.bits == 64 && type.lanes == 1;
}

nb::object array_of_list(nb::handle list, const char* name) {
  nb::object array;
  try {
    array = nb::module_::import_("numpy").attr("asarray")(list);
  } catch (nb::python_error& error) {
    raise_from(error, REGARD_INVALID, std::string(name) + " is a list that is no array of numbers");
  }
  const nb::object type = array.attr("dtype"), kind = type.attr("kind");
  const std::string letter = nb::cast<std::string>(kind);
  const bool whole = letter == "i" || nb::cast<std::size_t>(array.attr("size")) == 0;
  if (!whole)
    raise(REGARD_INVALID,
          std::string(name) + " is a list of " +
              (letter == "U" || letter == "S"   ? "text"
               : letter == "O" || letter == "u" ? "values that are no numbers or do not fit in 64 bits"
                                                : nb::cast<std::string>(nb::str(type))) +
              "; it must hold whole numbers of 32 bits");
  return array.attr("astype")("int64");
}

std::string shape_of(const ArrayView& view) {
  std::string text;
  for (int axis = 0; axis < view.rank; ++axis)
    text += (axis != 0 ? ", " : "") + std::to_string(view.shape[static_cast<std::size_t>(axis)]);
  return "[" + text + "]";
}

void refuse_flaw(const ArrayView& view, const char* name) {
  const std::string said(name);
  if (view.flaw == Flaw::requires_gradient)
    raise(REGARD_INVALID, said + " requires a gradient, which this call would not record: pass " + name +
                              ".detach() and call regard.attention_backward for gradients");
  if (view.flaw == Flaw::tangent)
    raise(REGARD_INVALID,
          said + " has a tangent of forward-mode differentiation, which this call would lose: pass " +
              "torch.autograd.forward_ad.unpack_dual(" + name + ").primal");
  if (view.flaw == Flaw::no_memory || (is_nowhere(view.data) && !is_empty(view)))
    raise(REGARD_INVALID,
          said + " has shape " + shape_of(view) +
              " and its memory does not cover all of it: its storage was freed or cut, or it is an array " +
              "without data, such as a fake or meta one; pass one that holds its elements");
}

alignas(64) char nothing[64];  // what empty arrays without memory point to: a null pointer would mean absent

}  // namespace

const char* dtype_word(regard_dtype dtype) {
  return row_of(dtype).word;
}

regard_dtype dtype_from_word(std::string_view word) {
  for (const DTypeRow& row : dtypes)
    if (row.word == word) return row.dtype;
  raise(REGARD_INVALID, "unknown dtype " + in_quotes(word) + "; dtypes are fp32, bf16, fp16, fp8, fp8_e5m2");
}

regard_role role_from_name(std::string_view name) {
  static const auto& roles = *new std::unordered_map<std::string_view, regard_role>([] {
    std::unordered_map<std::string_view, regard_role> all;
    for (int role = 0; role < REGARD_ROLE_COUNT; ++role)
      all.emplace(regard_role_name(static_cast<regard_role>(role)), static_cast<regard_role>(role));
    return all;
  }());
  const auto found = roles.find(name);
  return found == roles.end() ? REGARD_ROLE_COUNT : found->second;
}

AxisOrder axis_order(std::string_view layout) {
  AxisOrder order{};
  const std::string_view logical = "bshd";
  for (std::size_t axis = 0; axis < 4; ++axis) order[axis] = static_cast<int>(layout.find(logical[axis]));
  return order;
}

bool follows_layout(regard_role role, int rank) {
  const bool sequence =
      (role >= REGARD_Q && role <= REGARD_O) || (role >= REGARD_GRAD_O && role <= REGARD_GRAD_V);
  return sequence && rank == 4;
}

void refuse_traced(const nb::dict& named) {
  const bool tracing = torch_is_tracing();
  for (auto [name, value] : named)
    if ((tracing && is_torch(value)) || is_torch_proxy(value))
      refuse_traced(text_of(name, "a tensor's name").c_str());
}

void refuse_traced(const char* name) {
  raise(REGARD_INVALID, std::string(name) +
                            " is given while PyTorch traces (by torch.jit.trace, torch.export, make_fx or "
                            "symbolic_trace), and its graph would lose this call: make the call outside of "
                            "what is traced, or use torch.compile, which leaves the call as it is");
}

bool on_gpu(nb::handle array, const char* name) {
  try {
    return says_gpu(array);
  } catch (nb::python_error&) {
    refuse_array(array, name);
  }
}

void check_readable(nb::handle value, const char* name) {
  if (is_torch_proxy(value)) refuse_traced(name);
  if (is_torch(value) && !has_memory_torch(value))
    raise(REGARD_INVALID, std::string(name) +
                              " is a tensor whose memory does not cover all of it: its storage was freed or "
                              "cut; pass one that holds its elements");
}

nb::object exportable(nb::handle array) {
  if (says_gpu(array)) return array.attr("__dlpack__")(nb::arg("stream") = -1);
  if (!nb::hasattr(array, "dtype") || !nb::hasattr(array, "view")) return nb::borrow(array);
  nb::object type = array.attr("dtype");
  if (!nb::hasattr(type, "kind") || nb::cast<std::string>(nb::str(type.attr("kind"))) != "V")
    return nb::borrow(array);
  const int bytes = nb::cast<int>(type.attr("itemsize"));
  if (bytes != 1 && bytes != 2) return nb::borrow(array);
  return array.attr("view")(bytes == 2 ? "uint16" : "uint8");
}

void Binding::bind(const nb::dict& arrays) {
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
  const char* name = regard_role_name(role);
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
  const char* name = regard_role_name(role);
  const bool host = view.device == nb::device::cpu::value;
  refuse_flaw(view, name);
  if (place_ == Place::host && !host)
    raise(REGARD_INVALID, std::string(name) +
                              " is not in host memory: CPU targets take arrays on the CPU; target='cuda' "
                              "takes them on the GPU");
  if (place_ == Place::gpu && host)
    raise(REGARD_INVALID,
          std::string(name) + " is in host memory: GPU targets take arrays on the GPU; copy it there first");

  const DTypeRow& expected = row_of(problem_.expected(role).dtype);
  if (host && expected.dtype == REGARD_INT32 && is_int64(view.type)) return bind(role, narrowed(view, role));
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

/// As int32, contiguous. Of a wrong shape nothing is read: what checks the tensor refuses it.
ArrayView Binding::narrowed(const ArrayView& wide, regard_role role) {
  const char* name = regard_role_name(role);
  ArrayView narrow = wide;
  narrow.type = {static_cast<std::uint8_t>(dtype_code::Int), 32, 1};
  regard_tensor expected{};
  check(regard_problem_tensor(problem_.handle(), role, nullptr, &expected));
  bool fits = wide.rank == expected.rank;
  std::int64_t count = 1;
  for (int axis = 0; fits && axis < wide.rank; ++axis) {
    const std::int64_t size = wide.shape[static_cast<std::size_t>(axis)];
    fits = size >= 0 && size <= expected.shape[axis];
    count *= size;
  }
  if (!fits) return narrow;
  std::int32_t* const numbers =
      narrowed_.emplace_back(std::make_unique<std::int32_t[]>(static_cast<std::size_t>(count))).get();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = wide.rank; axis-- > 0;) {
      const auto a = static_cast<std::size_t>(axis);
      offset += rest % wide.shape[a] * wide.strides[a];
      rest /= wide.shape[a];
    }
    const std::int64_t number = static_cast<const std::int64_t*>(wide.data)[offset];
    if (number != static_cast<std::int32_t>(number))
      raise(REGARD_INVALID,
            std::string(name) + " has the number " + std::to_string(number) + ", and it must fit in 32 bits");
    numbers[i] = static_cast<std::int32_t>(number);
  }
  narrow.data = numbers;
  std::int64_t stride = 1;
  for (int axis = wide.rank; axis-- > 0;) {
    narrow.strides[static_cast<std::size_t>(axis)] = stride;
    stride *= wide.shape[static_cast<std::size_t>(axis)];
  }
  return narrow;
}

ArrayView Binding::view_of(nb::handle array, const char* name, bool written) {
  if (const std::optional<ArrayView> known = view_of_torch(array); known && known->rank > 0) return *known;
  const bool torch = is_torch(array);
  if (torch && is_lazy_torch(array)) {
    // On a GPU the copy would be made in PyTorch's stream, and the call may run in another one.
    if (written || on_gpu(array, name))
      raise(REGARD_INVALID,
            std::string(name) +
                " has PyTorch's negative or conjugate bit, by which other numbers are read than its "
                "memory holds; pass " +
                name + ".resolve_neg()");
    return view_of(made_.emplace_back(resolved_torch(array)), name, written);
  }
  if (nb::hasattr(array, "requires_grad") && nb::cast<bool>(nb::bool_(array.attr("requires_grad")))) {
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
  if (nb::hasattr(array, "mask") && nb::hasattr(array, "fill_value"))
    raise(REGARD_INVALID, std::string(name) +
                              " is a masked array, and tensors of attention have no mask of valid elements; "
                              "pass its data, or filled()");
  ArrayView view = view_by_dlpack(array, name, written);
  if (torch) view.flaw = flaw_of_torch(array, view);
  return view;
}

ArrayView Binding::view_by_dlpack(nb::handle array, const char* name, bool written) {
  const nb::object source = exported(array, name, written);
  nb::ndarray<nb::ro> found;
  nb::ndarray<> writable;
  if (written && import(source, writable))
    found = nb::ndarray<nb::ro>(writable);
  else if (!import(source, found))
    refuse_array(array, name);
  else if (written)
    refuse_to_write(name);
  ArrayView view;
  view.data = const_cast<void*>(static_cast<const void*>(found.data()));
  view.type = found.dtype();
  view.device = found.device_type();
  view.device_number = found.device_id();
  view.rank = static_cast<int>(found.ndim());
  if (view.rank < 1 || view.rank > 4)
    raise(REGARD_INVALID,
          std::string(name) + " has " + std::to_string(view.rank) + " dimensions; tensors have 1 to 4");
  for (int axis = 0; axis < view.rank; ++axis) {
    view.shape[axis] = static_cast<std::int64_t>(found.shape(axis));
    view.strides[axis] = found.stride(axis);
  }
  // A null pointer and an offset would look like memory.
  if (view.data == reinterpret_cast<void*>(found.byte_offset())) view.data = nullptr;
  owners_.push_back(std::move(found));
  return view;
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

nb::object empty(const std::vector<std::size_t>& shape, std::string_view dtype, bool zeros) {
  const DTypeRow& row = row_of(dtype_from_word(dtype));
  std::size_t bytes = static_cast<std::size_t>(row.bits) / 8;
  bool too_large = false;
  for (std::size_t extent : shape) too_large |= __builtin_mul_overflow(bytes, extent, &bytes);
  if (too_large || bytes > PTRDIFF_MAX - 64)
    raise(REGARD_INVALID, "an array of that shape has 2^63 bytes or more; use smaller sizes");
  bytes = (bytes + 64) / 64 * 64;
  void* memory = std::aligned_alloc(64, bytes);
  if (memory == nullptr)
    raise(REGARD_NO_MEMORY, "no memory for an array of " + std::to_string(bytes) + " bytes");
  if (zeros) std::memset(memory, 0, bytes);
  nb::capsule owner(memory, [](void* pointer) noexcept { std::free(pointer); });
  nb::dlpack::dtype type{static_cast<std::uint8_t>(row.code), static_cast<std::uint8_t>(row.bits), 1};
  nb::ndarray<nb::array_api> array(memory, shape.size(), shape.data(), owner, nullptr, type,
                                   nb::device::cpu::value);
  return nb::cast(array);
}

}  // namespace regard::python
