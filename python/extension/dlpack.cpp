#include "dlpack.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "cuda_array.h"
#include "dtypes.h"
#include "foreign.h"
#include "status.h"
#include "values.h"

namespace regard::python {
namespace {

/// Null for the device types of DLPack that no target is for.
const char* target_of(long device) {
  return device == nb::device::cuda::value ? "cuda" : device == nb::device::rocm::value ? "hip" : nullptr;
}

/// Lets exceptions of the array itself through.
const char* says_gpu(nb::handle array) {
  if (const std::optional<int> known = torch_device(array)) return target_of(*known);
  if (!has(array, "__dlpack_device__")) return is_cuda_array(array) ? "cuda" : nullptr;
  const nb::object pair = array.attr("__dlpack_device__")();
  const nb::object device = nb::steal(PyNumber_Long(nb::object(pair[0]).ptr()));
  if (!device.is_valid()) throw nb::python_error();
  return target_of(PyLong_AsLong(device.ptr()));
}

/// The name of a type of 1 or 2 bytes that NumPy does not export, else empty: "float8_e4m3fn" of ml_dtypes,
/// or "void8".
std::string extension_type(nb::handle array) {
  if (!has(array, "dtype") || !has(array, "view")) return {};
  nb::object type = array.attr("dtype");
  if (!has(type, "kind") || !has(type, "itemsize")) return {};
  const std::string kind = nb::cast<std::string>(nb::str(type.attr("kind")));
  const int bytes = nb::cast<int>(type.attr("itemsize"));
  const bool extension = (kind == "V" && (bytes == 1 || bytes == 2)) || (kind == "f" && bytes == 1);
  return extension ? nb::cast<std::string>(nb::str(type.attr("name"))) : "";
}

/// The producer's own reason: "BufferError: ...", up to the end of its first line, without a full stop.
std::string reason_of(const nb::python_error& error) {
  std::string reason = nb::cast<std::string>(nb::str(error.type().attr("__name__"))) + ": " +
                       nb::cast<std::string>(nb::str(error.value()));
  reason.resize(std::min(reason.find('\n'), reason.size()));
  while (reason.ends_with('.') || reason.ends_with(' ')) reason.pop_back();
  return reason;
}

// nanobind says only that an import failed; the producer's own reason is more useful.
[[noreturn]] void refuse_array(nb::handle array, const char* name) {
  if (!nb::ndarray_check(array))
    raise_type(
        std::string(name) + " must be a NumPy array, another DLPack array or one that has " +
        "__cuda_array_interface__, but is " + type_of(array) +
        (std::string_view(name) == "bits" ? "; regard.pack_bits(mask) makes one from a boolean mask" : ""));
  const std::string refusal =
      std::string(name) + " is an array " + type_of(array) + " whose memory cannot be taken through DLPack";
  try {
    const nb::object source = exportable(array);
    if (has(source, "__dlpack__")) source.attr("__dlpack__")();
  } catch (nb::python_error& error) {
    pass_on(error);
    raise_from(error, REGARD_INVALID, refusal + " (" + reason_of(error) + ")");
  }
  raise(REGARD_INVALID, refusal +
                            ": its dtype or byte order has no counterpart; pass fp32, bf16, fp16 or fp8 in "
                            "native byte order");
}

template <class Array>
bool try_import(nb::handle array, Array& result) {
  return nb::try_cast<Array>(array, result, false);
}

/// What a capsule holds from DLPack version 1 on.
struct Versioned {
  std::uint32_t major, minor;
  void *manager, *deleter;
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};

/// Checks what nanobind reads without checking.
void check_capsule(nb::handle capsule, const char* name) {
  const char* const kind = PyCapsule_GetName(capsule.ptr());
  const std::string_view said = kind != nullptr ? kind : "";
  const auto refuse = [name](const std::string& what) { raise(REGARD_INVALID, name + (" is " + what)); };
  if (said.starts_with("used_dltensor"))
    refuse("a DLPack capsule that was taken before; pass the array, or a new capsule of it");
  if (!said.starts_with("dltensor")) return;  // not DLPack's, which nanobind refuses
  const void* const held = PyCapsule_GetPointer(capsule.ptr(), kind);
  const auto* tensor = static_cast<const nb::dlpack::dltensor*>(held);
  if (said == "dltensor_versioned") {
    const auto* versioned = static_cast<const Versioned*>(held);
    if (versioned->major != 1)
      refuse("an array by version " + std::to_string(versioned->major) +
             " of DLPack, and only version 1 is supported");
    tensor = &versioned->tensor;
  }
  if (tensor->ndim > 0 && tensor->shape == nullptr)
    refuse("an array of " + std::to_string(tensor->ndim) + " dimensions whose DLPack capsule has no shape");
}

/// The capsule of an array, or the array itself if it has none and the buffer protocol may work.
nb::object exported(nb::handle array, const char* name, bool written) {
  nb::object source;
  try {
    source = exportable(array);
    source = capsule_of(source, written);
  } catch (nb::python_error& error) {
    pass_on(error);
    refuse_array(array, name);
  }
  if (PyCapsule_CheckExact(source.ptr()) != 0) check_capsule(source, name);
  return source;
}

}  // namespace

const char* gpu_of(nb::handle array, const char* name) {
  try {
    return says_gpu(array);
  } catch (nb::python_error& error) {
    pass_on(error);
    refuse_array(array, name);
  }
}

// Raw bytes may stand for any type, as integers do; a type with a name may not, if it has no counterpart
// here.
nb::object exportable(nb::handle array) {
  if (says_gpu(array) != nullptr) return array.attr("__dlpack__")(nb::arg("stream") = -1);
  const std::string name = extension_type(array);
  if (name.starts_with("void")) return array.attr("view")(name == "void16" ? "uint16" : "uint8");
  const auto type = type_named(name);
  return type ? array.attr("view")(type->bits == 16 ? "uint16" : "uint8") : nb::borrow(array);
}

// Older producers have no versions, and some can only lend a buffer.
nb::object capsule_of(nb::handle array, bool written) {
  if (!has(array, "__dlpack__")) return nb::borrow(array);
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

[[noreturn]] void refuse_to_write(const char* name) {
  raise(REGARD_INVALID, std::string(name) + " is written to but its array is read-only");
}

Imported import_array(nb::handle array, const char* name, bool written) {
  const nb::object source = exported(array, name, written);
  nb::ndarray<nb::ro> found;
  nb::ndarray<> writable;
  if (written && try_import(source, writable))
    found = nb::ndarray<nb::ro>(writable);
  else if (!try_import(source, found))
    refuse_array(array, name);
  else if (written)
    refuse_to_write(name);
  ArrayView view;
  view.data = const_cast<void*>(static_cast<const void*>(found.data()));
  view.type = found.dtype();
  if (static_cast<nb::dlpack::dtype_code>(view.type.code) == nb::dlpack::dtype_code::UInt &&
      view.type.bits <= 16)
    view.type = type_named(extension_type(array)).value_or(view.type);
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
  // A null pointer plus an offset would look like memory.
  if (view.data == reinterpret_cast<void*>(found.byte_offset())) view.data = nullptr;
  return {view, std::move(found)};
}

nb::object empty(const std::vector<std::size_t>& shape, std::string_view dtype, bool zeros) {
  const nb::dlpack::dtype type = dlpack_type(dtype_from_word(dtype));
  std::size_t bytes = type.bits / 8;
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
  nb::ndarray<nb::array_api> array(memory, shape.size(), shape.data(), owner, nullptr, type,
                                   nb::device::cpu::value);
  return nb::cast(array);
}

}  // namespace regard::python
