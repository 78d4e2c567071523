// The tensors that a problem takes and gives: one function that binding, validation, CLI, Python and oracle
// share.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "problem/problem.h"
#include "regard/regard.h"

namespace regard {

/// Up to four numbers, one per dimension, without allocation: tensors are checked on every call.
class Dimensions {
 public:
  using value_type = std::int64_t;
  using const_iterator = const std::int64_t*;

  Dimensions() = default;
  Dimensions(std::initializer_list<std::int64_t> values) : size_(values.size()) {
    std::copy(values.begin(), values.end(), values_.begin());
  }
  static Dimensions of_size(std::size_t size) {
    Dimensions dimensions;
    dimensions.size_ = size;
    return dimensions;
  }

  std::size_t size() const { return size_; }
  std::int64_t* data() { return values_.data(); }
  const std::int64_t* data() const { return values_.data(); }
  const std::int64_t* begin() const { return data(); }
  const std::int64_t* end() const { return data() + size_; }
  std::int64_t& operator[](std::size_t i) { return values_[i]; }
  std::int64_t operator[](std::size_t i) const { return values_[i]; }
  friend bool operator==(const Dimensions&, const Dimensions&) = default;

 private:
  std::array<std::int64_t, 4> values_{};
  std::size_t size_ = 0;
};

struct TensorSpec {
  regard_role role;
  std::string_view name;        ///< "q", "grad_bias", ...
  std::string_view given_name;  ///< of a tensor that functions read, and of its gradient: that in `tensors=`
  regard_use use = REGARD_UNUSED;
  regard_dtype dtype = REGARD_FP32;
  Dimensions shape;
  Dimensions strides;  ///< of the problem's layout, in elements
  /// Dimensions in which the caller's tensor can have size 1 instead, which is then used for all (ranges,
  /// bits, bias).
  std::array<bool, 4> broadcast{};
  bool contiguous = false;   ///< row-major without gaps (per-sequence numbers), not any strides
  bool any_strides = false;  ///< the last dimension can have another stride than 1, too (factors)
  bool shorter = false;      ///< the first dimension can be smaller (a list of pages)
  bool any_sizes = false;    ///< each dimension can have any size from 1 on: `shape` is an example
};

/// The name for messages, such as "q", or "slope (captured_0)".
std::string label(const TensorSpec&);

/// Has no elements, and so possibly no memory.
inline bool is_empty(const TensorSpec& spec) {
  return std::find(spec.shape.begin(), spec.shape.end(), 0) != spec.shape.end();
}

std::string_view role_name(regard_role);
Result<regard_role> role_from_name(std::string_view name);

/// What `problem` expects for `role`. Roles that it does not use are returned as REGARD_UNUSED.
TensorSpec tensor_spec(const Problem& problem, regard_role role);
/// Only the `use` of its spec.
regard_use tensor_use(const Problem& problem, regard_role role);
/// Whether a call writes to it.
inline bool is_written(regard_use use) {
  return use == REGARD_OUTPUT || use == REGARD_INPUT_OUTPUT;
}

/// The role of a tensor that the problem's functions read, or of its gradient.
inline regard_role captured(int index) {
  return static_cast<regard_role>(REGARD_CAPTURED_0 + index);
}
inline regard_role grad_captured(int index) {
  return static_cast<regard_role>(REGARD_GRAD_CAPTURED_0 + index);
}
inline bool is_captured(regard_role role) {
  return role >= REGARD_CAPTURED_0 && role <= REGARD_CAPTURED_7;
}
inline bool is_grad_captured(regard_role role) {
  return role >= REGARD_GRAD_CAPTURED_0 && role <= REGARD_GRAD_CAPTURED_7;
}
static_assert(REGARD_CAPTURED_7 - REGARD_CAPTURED_0 + 1 == function::most_tensors);

/// From the first byte of a tensor to one past its last; empty where it has no elements.
struct ByteRange {
  std::uint64_t first = ~std::uint64_t{0}, end = 0;
  bool meets(const ByteRange& other) const { return first < other.end && other.first < end; }
};
/// For a tensor whose strides were checked.
ByteRange range_of(const regard_tensor& tensor);
/// Whether they have a byte in common; false for strides that are not nested if it would take too long to
/// determine.
bool share_memory(const regard_tensor&, const regard_tensor&);

/// Checks a caller's tensors against the problem: presence, dtype, rank, shape, contiguous last dimension,
/// strides that do not overlap, overflow, outputs that share no memory with any other tensor. The message
/// names the tensor, what it is and what it should be. Reads no elements, so it works for device memory as
/// well.
Status check_tensors(const Problem& problem, const regard_arguments& arguments);

/// The same for one tensor, whose spec need not be that of its role.
Status check_tensor(const Problem&, const TensorSpec&, const regard_tensor&);

/// A set of roles, one bit each.
using Roles = std::uint64_t;
static_assert(REGARD_ROLE_COUNT <= 64);
/// Calls `visit` with each of them until it returns an error.
template <class Visit>
Status for_each(Roles roles, Visit&& visit) {
  for (; roles != 0; roles &= roles - 1) {
    if (Status status = visit(static_cast<regard_role>(std::countr_zero(roles))); !status) return status;
  }
  return {};
}

/// What a problem expects for every role, for callers that check many calls of one problem.
struct TensorSpecs {
  std::array<TensorSpec, REGARD_ROLE_COUNT> of;
  Roles used = 0, written = 0;
};
TensorSpecs tensor_specs(const Problem& problem);
Status check_tensors(const Problem& problem, const TensorSpecs& specs, const regard_arguments& arguments);

/// Checks that the `bytes` bytes of a workspace overlap none of the tensors, which have passed check_tensors.
Status check_workspace(const TensorSpecs& specs, const regard_arguments& arguments, void* workspace,
                       std::int64_t bytes);

/// Where tensors are readable on the host: cumulative offsets that start at 0, never decrease and end within
/// the tokens; logical lengths within the physical ones; no sequence longer than sq or sk. Call after
/// check_tensors.
Status check_host_values(const Problem& problem, const regard_arguments& arguments);

std::size_t bytes_of(regard_dtype);
std::string_view word(regard_dtype);  ///< "bf16", "int32", ...
regard_dtype c_dtype(DType);

}  // namespace regard
