#include "xla_call.h"

#include <iterator>
#include <string>

#include "xla_failure.h"

namespace regard::python::xla {
namespace {

const void* attribute(const Call& call, std::string_view name, AttributeKind kind) {
  const Attributes& all = call.attributes;
  for (std::int64_t i = 0; i < all.count; ++i) {
    if (std::string_view(all.names[i]->data, all.names[i]->size) == name && all.kinds[i] == kind)
      return all.items[i];
  }
  throw Failure(REGARD_INVALID, "the foreign call has no attribute '" + std::string(name) +
                                    "': it was made by another version of Regard; trace the program anew");
}

std::string_view text(const Call& call, std::string_view name) {
  const Text& span = *static_cast<const Text*>(attribute(call, name, AttributeKind::text));
  return {span.data, span.size};
}

std::int32_t number(const Call& call, std::string_view name) {
  const Scalar& scalar = *static_cast<const Scalar*>(attribute(call, name, AttributeKind::scalar));
  if (scalar.dtype != DType::s32)
    throw Failure(REGARD_INVALID, "the attribute '" + std::string(name) + "' must be an int32");
  return *static_cast<const std::int32_t*>(scalar.value);
}

regard_dtype dtype_of(DType dtype, const char* name) {
  switch (dtype) {
    case DType::s8:
      return REGARD_INT8;
    case DType::s32:
      return REGARD_INT32;
    case DType::s64:
      return REGARD_INT64;
    case DType::u8:
      return REGARD_UINT8;
    case DType::u32:
      return REGARD_UINT32;
    case DType::u64:
      return REGARD_UINT64;
    case DType::f16:
      return REGARD_FP16;
    case DType::f32:
      return REGARD_FP32;
    case DType::bf16:
      return REGARD_BF16;
    case DType::f8e5m2:
      return REGARD_FP8_E5M2;
    case DType::f8e4m3fn:
      return REGARD_FP8;
    case DType::f8e5m2fnuz:
      return REGARD_FP8_E5M2_FNUZ;
    case DType::f8e4m3fnuz:
      return REGARD_FP8_FNUZ;
  }
  throw Failure(REGARD_INVALID, std::string(name) +
                                    " has a dtype that no tensor of attention has; attention takes float32, "
                                    "bfloat16, float16, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, "
                                    "float8_e5m2fnuz, int8, int32, uint32 and uint8");
}

/// JAX has no 64-bit integers unless they are enabled: seed and offset come as 32-bit halves.
bool are_halves(const Buffer& buffer, regard_role role) {
  return role == REGARD_SEED && buffer.dtype == DType::u32 && buffer.rank == 1 && buffer.dims[0] == 4;
}

regard_tensor tensor_of(const Buffer& buffer, regard_role role, const AxisOrder& order) {
  const char* const name = regard_role_name(role);
  regard_tensor tensor{};
  constexpr std::int64_t most = std::ssize(tensor.shape);
  if (buffer.rank < 1 || buffer.rank > most)
    throw Failure(REGARD_INVALID, std::string(name) + " has " + std::to_string(buffer.rank) +
                                      " dimensions; tensors have 1 to " + std::to_string(most));
  // Null means absent, which an array without elements is not.
  static std::byte nothing;
  tensor.data = buffer.data == nullptr ? &nothing : buffer.data;
  tensor.rank = static_cast<std::int32_t>(buffer.rank);
  if (are_halves(buffer, role)) {
    tensor.dtype = REGARD_UINT64;
    tensor.shape[0] = 2;
    tensor.strides[0] = 1;
    return tensor;
  }
  tensor.dtype = dtype_of(buffer.dtype, name);
  std::int64_t strides[most], stride = 1;
  for (int axis = tensor.rank - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= buffer.dims[axis];
  }
  const bool reordered = follows_layout(role, tensor.rank);
  for (int axis = 0; axis < tensor.rank; ++axis) {
    const int from = reordered ? order[axis] : axis;
    tensor.shape[axis] = buffer.dims[from];
    tensor.strides[axis] = strides[from];
  }
  return tensor;
}

void bind(const Buffers& buffers, const std::vector<regard_role>& roles, const AxisOrder& order,
          regard_arguments& arguments) {
  if (buffers.count < std::ssize(roles))
    throw Failure(REGARD_INVALID,
                  "the foreign call has fewer arrays than its attributes name; trace the program anew");
  for (std::int64_t i = 0; i < std::ssize(roles); ++i) {
    if (roles[i] != REGARD_ROLE_COUNT)
      arguments.tensor[roles[i]] = tensor_of(buffer_of(buffers, i), roles[i], order);
  }
}

}  // namespace

Asked asked_by(const Call& call) {
  return {text(call, "problem"), text(call, "inputs"),    text(call, "outputs"),  text(call, "target"),
          text(call, "family"),  text(call, "functions"), number(call, "threads")};
}

regard_arguments arguments_of(const Call& call, const Planned& planned) {
  regard_arguments arguments = REGARD_ARGUMENTS_INIT;
  bind(call.arguments, planned.inputs, planned.order, arguments);
  bind(call.results, planned.outputs, planned.order, arguments);
  return arguments;
}

const Buffer& buffer_of(const Buffers& all, std::int64_t index) {
  if (all.kinds[index] != buffer_kind)
    throw Failure(REGARD_INVALID, "a foreign call of attention takes arrays and nothing else");
  return *static_cast<const Buffer*>(all.items[index]);
}

}  // namespace regard::python::xla
