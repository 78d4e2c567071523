#include <algorithm>
#include <array>

#include "problem/tensors.h"

namespace regard {
namespace {

std::string quoted(const TensorSpec& spec) {
  return "tensor '" + label(spec) + "'";
}

std::string list(const std::int64_t* values, std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + "]";
}

std::string expected(const TensorSpec& spec) {
  return std::string(word(spec.dtype)) + " " + list(spec.shape.data(), spec.shape.size());
}

/// A caller can pass any number.
std::string dtype_name(regard_dtype given) {
  for (const regard_dtype dtype :
       {REGARD_FP32, REGARD_BF16, REGARD_FP16, REGARD_FP8, REGARD_FP8_E5M2, REGARD_INT8, REGARD_FP8_FNUZ,
        REGARD_FP8_E5M2_FNUZ, REGARD_INT32, REGARD_UINT32, REGARD_UINT8, REGARD_UINT64, REGARD_INT64}) {
    if (given == dtype) return std::string(word(dtype));
  }
  return "of the unknown dtype " + std::to_string(given);
}

Status check_presence(const Problem& p, const TensorSpec& spec, const regard_tensor& tensor) {
  const bool given = tensor.data != nullptr;
  if (given && spec.use == REGARD_UNUSED) {
    return invalid(quoted(spec) + " is given, but '" + print(p) + "' does not use it; leave it out");
  }
  if (!given && spec.use != REGARD_UNUSED && spec.use != REGARD_OPTIONAL_INPUT && !is_empty(spec)) {
    return invalid(quoted(spec) + " is missing (null); the problem needs it as " + expected(spec));
  }
  return {};
}

/// Tensors that a function reads are converted element by element.
bool can_be_read_as(regard_dtype dtype, const TensorSpec& spec) {
  if (!is_captured(spec.role)) return false;
  if (spec.dtype == REGARD_FP32) return dtype == REGARD_BF16 || dtype == REGARD_FP16;
  return spec.dtype == REGARD_INT32 && (dtype == REGARD_INT64 || dtype == REGARD_UINT8);
}

std::string_view other_dtypes(const TensorSpec& spec) {
  if (!is_captured(spec.role) || spec.dtype == REGARD_UINT8) return "";
  return spec.dtype == REGARD_FP32 ? ", bf16 or fp16" : ", int64 or uint8";
}

Status check_dtype(const TensorSpec& spec, const regard_tensor& tensor) {
  if (tensor.dtype == spec.dtype || can_be_read_as(tensor.dtype, spec)) return {};
  return invalid(quoted(spec) + " is " + dtype_name(tensor.dtype) + "; the problem needs " +
                 std::string(word(spec.dtype)) + std::string(other_dtypes(spec)));
}

Status check_shape(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::size_t rank = spec.shape.size();
  if (tensor.rank < 1 || static_cast<std::size_t>(tensor.rank) != rank) {
    return invalid(quoted(spec) + " has rank " + std::to_string(tensor.rank) + "; it must be " +
                   expected(spec));
  }
  for (std::size_t i = 0; i < rank && spec.any_sizes; ++i) {
    if (tensor.shape[i] >= 1 && tensor.shape[i] <= INT32_MAX) continue;
    return invalid(quoted(spec) + " has shape " + list(tensor.shape, rank) +
                   "; a tensor that a function reads has 1 to 2147483647 elements in each dimension");
  }
  for (std::size_t i = 0; i < rank && !spec.any_sizes; ++i) {
    const bool broadcast = spec.broadcast[i] && tensor.shape[i] == 1;
    const bool shorter = spec.shorter && i == 0 && tensor.shape[i] >= 0 && tensor.shape[i] < spec.shape[i];
    if (tensor.shape[i] == spec.shape[i] || broadcast || shorter) continue;
    return invalid(quoted(spec) + " has shape " + list(tensor.shape, rank) + "; it must be " +
                   list(spec.shape.data(), rank) + (spec.shorter ? " or shorter" : "") + ", so dimension " +
                   std::to_string(i) + " is wrong");
  }
  return {};
}

struct Dimension {
  std::int64_t size, stride;
};

/// Dimensions with a stride that matters, smallest stride first.
struct Moving {
  std::array<Dimension, 4> dimensions{};
  std::size_t count = 0;

  explicit Moving(const regard_tensor& tensor) {
    for (std::int32_t i = 0; i < tensor.rank; ++i) {
      if (tensor.shape[i] > 1) insert({tensor.shape[i], tensor.strides[i]});
    }
  }

 private:
  void insert(const Dimension& added) {
    std::size_t index = count++;
    for (; index > 0 && dimensions[index - 1].stride > added.stride; --index) {
      dimensions[index] = dimensions[index - 1];
    }
    dimensions[index] = added;
  }
};

/// Advances `end` to one past the last element that the dimension reaches; false on overflow.
bool reach(std::int64_t& end, const Dimension& dimension) {
  std::int64_t distance = 0;
  return !__builtin_mul_overflow(dimension.size - 1, dimension.stride, &distance) &&
         !__builtin_add_overflow(end, distance, &end);
}

enum class Fault : std::uint8_t { none, last_not_contiguous, negative, too_far, gaps, overlap };

/// What is wrong with the strides of a tensor whose shape is right.
Fault find_fault(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::size_t rank = spec.shape.size();
  if (!spec.any_strides && tensor.shape[rank - 1] > 1 && tensor.strides[rank - 1] != 1)
    return Fault::last_not_contiguous;
  const Moving moving(tensor);
  // Reading one element at many indices is a broadcast; writing it would be a race.
  const bool may_broadcast = !is_written(spec.use);
  std::int64_t end = 1;
  Fault fault = Fault::none;
  for (std::size_t i = 0; i < moving.count; ++i) {
    const Dimension& dimension = moving.dimensions[i];
    if (dimension.stride < 0) return Fault::negative;
    if (dimension.stride == 0 && may_broadcast) continue;
    if (dimension.stride < end) fault = Fault::overlap;
    if (!reach(end, dimension)) return Fault::too_far;
  }
  if (__builtin_mul_overflow(end, static_cast<std::int64_t>(bytes_of(tensor.dtype)), &end))
    return Fault::too_far;
  for (std::size_t i = 0; spec.contiguous && i < rank; ++i) {
    if (tensor.shape[i] > 1 && tensor.strides[i] != spec.strides[i]) return Fault::gaps;
  }
  return fault;
}

Status check_strides(const TensorSpec& spec, const regard_tensor& tensor) {
  const Fault fault = find_fault(spec, tensor);
  if (fault == Fault::none) return {};
  const std::size_t rank = spec.shape.size();
  const std::string strides = quoted(spec) + " has strides " + list(tensor.strides, rank);
  const std::string row_major = list(spec.strides.data(), rank);
  const std::string how = ", as numpy.ascontiguousarray() or PyTorch's contiguous() does";
  switch (fault) {
    case Fault::last_not_contiguous:
      return invalid(strides +
                     "; the last dimension must be contiguous (stride 1), so make it contiguous first" + how);
    case Fault::negative:
      return invalid(strides + "; negative strides are not supported, so make it contiguous first" + how);
    case Fault::too_far:
      return invalid(strides + " that reach past 2^63 bytes; strides count elements");
    case Fault::gaps:
      return invalid(strides + "; it must be contiguous, with strides " + row_major);
    default:
      return invalid(strides + " for shape " + list(tensor.shape, rank) +
                     ", where elements overlap; strides without gaps would be " + row_major);
  }
}

Status check_alignment(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::size_t bytes = bytes_of(tensor.dtype);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % bytes == 0) return {};
  return invalid(quoted(spec) + " does not start at a multiple of " + std::to_string(bytes) +
                 " bytes, the size of its " + std::string(word(tensor.dtype)) + " elements");
}

/// ranges has rows of two int32 that kernels step through as one array.
Status check_ranges_rows(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::size_t row = spec.shape.size() - 2;
  if (spec.role != REGARD_RANGES || tensor.shape[row] <= 1 || tensor.strides[row] == 2) return {};
  return invalid(quoted(spec) + " has row stride " + std::to_string(tensor.strides[row]) +
                 "; its rows of two must lie one after the other (stride 2)");
}

/// The usual case, recognized by few comparisons: a tensor whose memory layout is that of the problem.
bool lies_as_specified(const TensorSpec& spec, const regard_tensor& tensor) {
  const std::size_t rank = spec.shape.size();
  if (tensor.data == nullptr || spec.use == REGARD_UNUSED || tensor.dtype != spec.dtype ||
      tensor.rank != static_cast<std::int32_t>(rank))
    return false;
  std::int64_t differing = 0;  // bits instead of branches
  for (std::size_t i = 0; i < rank; ++i)
    differing |= (tensor.shape[i] ^ spec.shape[i]) | (tensor.strides[i] ^ spec.strides[i]);
  const std::uintptr_t within_element = bytes_of(spec.dtype) - 1;
  return differing == 0 && (reinterpret_cast<std::uintptr_t>(tensor.data) & within_element) == 0;
}

}  // namespace

Status check_tensor(const Problem& p, const TensorSpec& spec, const regard_tensor& tensor) {
  if (lies_as_specified(spec, tensor)) return {};
  if (Status status = check_presence(p, spec, tensor); !status) return status;
  if (tensor.data == nullptr) return {};
  if (Status status = check_dtype(spec, tensor); !status) return status;
  if (Status status = check_shape(spec, tensor); !status) return status;
  if (is_empty(spec)) return {};
  if (Status status = check_strides(spec, tensor); !status) return status;
  if (Status status = check_ranges_rows(spec, tensor); !status) return status;
  return check_alignment(spec, tensor);
}

namespace {

/// Without a cache_index, sequence i of the batch is sequence i of the cache.
Status check_cache_index(const Problem& p, const regard_arguments& arguments) {
  const bool by_index = arguments.tensor[REGARD_CACHE_INDEX].data != nullptr;
  if (by_index || p.cache == 0 || p.b <= p.cache || p.slots != SlotType::none) return {};
  return invalid("the cache has " + std::to_string(p.cache) + " sequences, fewer than the batch of " +
                 std::to_string(p.b) + "; give cache_index, or a larger cache");
}

/// A gradient has the sizes of its tensor.
Status check_grad_captured(const regard_arguments& arguments, const TensorSpecs& specs) {
  for (int i = 0; i < static_cast<int>(function::most_tensors); ++i) {
    if (specs.of[grad_captured(i)].use == REGARD_UNUSED) continue;
    const regard_tensor &tensor = arguments.tensor[captured(i)], &grad = arguments.tensor[grad_captured(i)];
    const auto rank = static_cast<std::size_t>(tensor.rank);
    if (std::equal(tensor.shape, tensor.shape + rank, grad.shape)) continue;
    return invalid(quoted(specs.of[grad_captured(i)]) + " has shape " + list(grad.shape, rank) +
                   "; it must be that of the tensor, " + list(tensor.shape, rank));
  }
  return {};
}

/// K and V may be views of one pool of pages that begin whole pages apart: the page table then gives each
/// page to one of them, and only the device knows which pages are written.
bool are_pools(const Problem& p, const regard_arguments& arguments, int output, int other) {
  const auto is_cache = [](int role) { return role == REGARD_K || role == REGARD_V; };
  if (p.paged == 0 || !is_cache(output) || !is_cache(other)) return false;
  const regard_tensor &k = arguments.tensor[REGARD_K], &v = arguments.tensor[REGARD_V];
  const std::int64_t apart = static_cast<const std::byte*>(v.data) - static_cast<const std::byte*>(k.data),
                     page_bytes = k.strides[0] * static_cast<std::int64_t>(bytes_of(p.kv));
  return k.strides[0] == v.strides[0] && apart != 0 && page_bytes != 0 && apart % page_bytes == 0;
}

/// Kernels read inputs until the last output is written, and write outputs in any order.
Status check_outputs(const Problem& p, const TensorSpecs& specs, Roles given,
                     const regard_arguments& arguments) {
  const auto& tensors = arguments.tensor;
  std::array<std::uint64_t, REGARD_ROLE_COUNT> first, end;  // of the given tensors
  for (Roles rest = given; rest != 0; rest &= rest - 1) {
    const int role = std::countr_zero(rest);
    const ByteRange range = range_of(tensors[role]);
    first[role] = range.first;
    end[role] = range.end;
  }
  Roles others = given;
  for (Roles outputs = given & specs.written; outputs != 0; outputs &= outputs - 1) {
    const int output = std::countr_zero(outputs);
    others &= ~(Roles{1} << output);
    for (Roles rest = others; rest != 0; rest &= rest - 1) {
      const int other = std::countr_zero(rest);
      if (first[output] >= end[other] || first[other] >= end[output]) continue;
      if (!share_memory(tensors[output], tensors[other]) || are_pools(p, arguments, output, other)) continue;
      return invalid(
          quoted(specs.of[output]) + " shares memory with " + quoted(specs.of[other]) +
          "; what a call writes shares memory with nothing else of the call, so give it memory of its own");
    }
  }
  return {};
}

}  // namespace

Status check_tensors(const Problem& problem, const regard_arguments& arguments) {
  return check_tensors(problem, tensor_specs(problem), arguments);
}

Status check_tensors(const Problem& problem, const TensorSpecs& specs, const regard_arguments& arguments) {
  Roles given = 0;
  for (std::size_t role = 0; role < REGARD_ROLE_COUNT; ++role)
    given |= static_cast<Roles>(arguments.tensor[role].data != nullptr) << role;
  Status status = for_each(given | specs.used, [&](regard_role role) {
    return check_tensor(problem, specs.of[role], arguments.tensor[role]);
  });
  if (!status) return status;
  const bool no_lengths = arguments.tensor[REGARD_LENGTHS_Q].data == nullptr &&
                          arguments.tensor[REGARD_LENGTHS_K].data == nullptr;
  if (problem.lengths && no_lengths && problem.b > 0) {
    return invalid(
        "the problem says 'lengths', but neither lengths_q nor lengths_k is given; give one or drop the "
        "word");
  }
  if (Status status = check_cache_index(problem, arguments); !status) return status;
  if (Status status = check_grad_captured(arguments, specs); !status) return status;
  return check_outputs(problem, specs, given, arguments);
}

Status check_workspace(const TensorSpecs& specs, const regard_arguments& arguments, void* workspace,
                       std::int64_t bytes) {
  if (bytes == 0) return {};
  regard_tensor memory{};
  memory.data = workspace, memory.dtype = REGARD_UINT8, memory.rank = 1;
  memory.shape[0] = bytes, memory.strides[0] = 1;
  const ByteRange range = range_of(memory);
  return for_each(specs.used, [&](regard_role role) -> Status {
    const regard_tensor& tensor = arguments.tensor[role];
    if (tensor.data == nullptr || !range.meets(range_of(tensor)) || !share_memory(memory, tensor)) return {};
    return invalid("the workspace shares memory with " + quoted(specs.of[role]) +
                   "; give it memory of its own");
  });
}

}  // namespace regard
