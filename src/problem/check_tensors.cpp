#include <algorithm>
#include <cstring>
#include <optional>

#include "problem/tensors.h"

namespace regard {
namespace {

std::string quoted(std::string_view name) {
  return "tensor '" + std::string(name) + "'";
}

std::string list(const std::int64_t* values, std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + "]";
}

std::string expected(const TensorSpec& spec) {
  return std::string(word(spec.dtype)) + " " + list(spec.shape.data(), spec.shape.size());
}

bool is_empty(const TensorSpec& spec) {
  return std::find(spec.shape.begin(), spec.shape.end(), 0) != spec.shape.end();
}

/// A C caller can put any number there, which reading as an enumerator would make undefined behaviour.
std::int64_t dtype_number(const regard_tensor& tensor) {
  std::underlying_type_t<regard_dtype> number;
  static_assert(sizeof(number) == sizeof(tensor.dtype));
  std::memcpy(&number, &tensor.dtype, sizeof(number));
  return number;
}

std::string dtype_name(std::int64_t number) {
  for (const regard_dtype dtype : {REGARD_FP32, REGARD_BF16, REGARD_FP16, REGARD_FP8, REGARD_FP8_E5M2,
                                   REGARD_INT32, REGARD_UINT32, REGARD_UINT8, REGARD_UINT64}) {
    if (number == dtype) return std::string(word(dtype));
  }
  return "of the unknown dtype " + std::to_string(number);
}

Status check_presence(const Problem& p, const TensorSpec& spec, const regard_tensor& tensor) {
  const bool given = tensor.data != nullptr;
  if (given && spec.use == REGARD_UNUSED) {
    return invalid(quoted(spec.name) + " is given, but '" + print(p) + "' does not use it; leave it out");
  }
  if (!given && (spec.use == REGARD_INPUT || spec.use == REGARD_OUTPUT) && !is_empty(spec)) {
    return invalid(quoted(spec.name) + " is missing (null); the problem needs it as " + expected(spec));
  }
  return {};
}

Status check_dtype(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::int64_t given = dtype_number(tensor);
  if (given == spec.dtype) return {};
  return invalid(quoted(spec.name) + " is " + dtype_name(given) + "; the problem needs " +
                 std::string(word(spec.dtype)));
}

Status check_shape(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::size_t rank = spec.shape.size();
  if (tensor.rank < 1 || static_cast<std::size_t>(tensor.rank) != rank) {
    return invalid(quoted(spec.name) + " has rank " + std::to_string(tensor.rank) + "; it must be " +
                   expected(spec));
  }
  for (std::size_t i = 0; i < rank; ++i) {
    const bool broadcast = spec.broadcast[i] && tensor.shape[i] == 1;
    if (tensor.shape[i] == spec.shape[i] || broadcast) continue;
    return invalid(quoted(spec.name) + " has shape " + list(tensor.shape, rank) + "; it must be " +
                   list(spec.shape.data(), rank) + ", so dimension " + std::to_string(i) + " is wrong");
  }
  return {};
}

struct Dimension {
  std::int64_t size, stride;
};

/// Dimensions that move through memory, smallest stride first.
std::vector<Dimension> moving_dimensions(const regard_tensor& tensor) {
  std::vector<Dimension> dimensions;
  for (std::int32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] > 1) dimensions.push_back({tensor.shape[i], tensor.strides[i]});
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  return dimensions;
}

/// Elements from the first to one past the last, when `dimensions` nest without overlap; nullopt on overflow.
std::optional<std::int64_t> extent(const std::vector<Dimension>& dimensions) {
  std::int64_t end = 1;
  for (const Dimension& dimension : dimensions) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(dimension.size - 1, dimension.stride, &reach)) return std::nullopt;
    if (__builtin_add_overflow(end, reach, &end)) return std::nullopt;
  }
  return end;
}

Status check_strides(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::size_t rank = spec.shape.size();
  const std::string strides = quoted(spec.name) + " has strides " + list(tensor.strides, rank);
  if (tensor.shape[rank - 1] > 1 && tensor.strides[rank - 1] != 1) {
    return invalid(strides +
                   "; the last dimension must be contiguous (stride 1), so make it contiguous first");
  }
  const std::vector<Dimension> dimensions = moving_dimensions(tensor);
  if (!dimensions.empty() && dimensions.front().stride < 0) {
    return invalid(strides + "; negative strides are not supported, so make it contiguous first");
  }
  std::int64_t bytes = 0;
  const std::optional<std::int64_t> elements = extent(dimensions);
  if (!elements ||
      __builtin_mul_overflow(*elements, static_cast<std::int64_t>(bytes_of(spec.dtype)), &bytes)) {
    return invalid(strides + " that reach past 2^63 bytes; strides count elements");
  }
  if (spec.packed) {
    for (std::size_t i = 0; i < rank; ++i) {
      if (tensor.shape[i] == 1 || tensor.strides[i] == spec.strides[i]) continue;
      return invalid(strides + "; it must be contiguous, with strides " + list(spec.strides.data(), rank));
    }
  }
  // Reading one element for many indices is a broadcast; writing it would be a race.
  const bool may_broadcast = spec.use != REGARD_OUTPUT;
  std::vector<Dimension> inner;
  for (const Dimension& dimension : dimensions) {
    if (dimension.stride == 0 && may_broadcast) continue;
    if (dimension.stride < *extent(inner)) {
      return invalid(strides + " for shape " + list(tensor.shape, rank) +
                     ", where elements overlap; row-major strides would be " +
                     list(spec.strides.data(), rank));
    }
    inner.push_back(dimension);
  }
  return {};
}

Status check_alignment(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::size_t bytes = bytes_of(spec.dtype);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % bytes == 0) return {};
  return invalid(quoted(spec.name) + " does not start at a multiple of " + std::to_string(bytes) +
                 " bytes, the size of its " + std::string(word(spec.dtype)) + " elements");
}

/// ranges are rows of two int32 that kernels step through as one array.
Status check_ranges_rows(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::size_t row = spec.shape.size() - 2;
  if (spec.role != REGARD_RANGES || tensor.shape[row] <= 1 || tensor.strides[row] == 2) return {};
  return invalid(quoted(spec.name) + " has row stride " + std::to_string(tensor.strides[row]) +
                 "; its rows of two must lie one after the other (stride 2)");
}

Status check_tensor(const Problem& p, const TensorSpec& spec, const regard_tensor& tensor) {
  if (Status status = check_presence(p, spec, tensor); !status) return status;
  if (tensor.data == nullptr) return {};
  if (Status status = check_dtype(spec, tensor); !status) return status;
  if (Status status = check_shape(spec, tensor); !status) return status;
  if (is_empty(spec)) return {};
  if (Status status = check_strides(spec, tensor); !status) return status;
  if (Status status = check_ranges_rows(spec, tensor); !status) return status;
  return check_alignment(spec, tensor);
}

}  // namespace

Status check_tensors(const Problem& problem, const regard_arguments& arguments) {
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const TensorSpec spec = tensor_spec(problem, static_cast<regard_role>(i));
    if (Status status = check_tensor(problem, spec, arguments.tensor[i]); !status) return status;
  }
  const bool no_lengths = arguments.tensor[REGARD_LENGTHS_Q].data == nullptr &&
                          arguments.tensor[REGARD_LENGTHS_K].data == nullptr;
  if (problem.lengths && no_lengths) {
    return invalid(
        "the problem says 'lengths', but neither lengths_q nor lengths_k is given; give one or drop the "
        "word");
  }
  return {};
}

}  // namespace regard
