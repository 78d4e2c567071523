// Which tensors a problem takes and gives: one function that binding, validation, CLI, Python and oracle
// share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "problem/problem.h"
#include "regard/regard.h"

namespace regard {

struct TensorSpec {
  regard_role role;
  std::string_view name;  ///< "q", "grad_bias", ...
  regard_use use = REGARD_UNUSED;
  regard_dtype dtype = REGARD_FP32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< of the problem's layout, in elements
  /// Dimensions where the caller's tensor may have size 1 instead, and is then used for all (ranges, bits).
  std::vector<bool> broadcast;
  bool packed = false;  ///< row-major without gaps (per-sequence numbers), not any strides
};

std::string_view role_name(regard_role);
Result<regard_role> role_from_name(std::string_view name);

/// What `problem` expects of `role`. Roles that it does not use come back as REGARD_UNUSED.
TensorSpec tensor_spec(const Problem& problem, regard_role role);

/// Checks a caller's tensors against the problem: presence, dtype, rank, shape, contiguous last dimension,
/// strides that do not overlap, overflow. The message names the tensor, what it is and what it should be.
/// Looks at no element, so it is as right for device memory.
Status check_tensors(const Problem& problem, const regard_arguments& arguments);

/// Where tensors are readable on the host: cumulative offsets that start at 0, never decrease and end within
/// the tokens; logical lengths within the physical ones; no sequence longer than sq or sk. Call after
/// check_tensors.
Status check_host_values(const Problem& problem, const regard_arguments& arguments);

std::size_t bytes_of(regard_dtype);
std::string_view word(regard_dtype);  ///< "bf16", "int32", ...
regard_dtype c_dtype(DType);

}  // namespace regard
