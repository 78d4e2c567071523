// Tensors in GPU memory, copied to the host, for the oracle.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "regard/regard.h"

namespace regard {

struct HostCopy {
  regard_arguments arguments;
  std::vector<std::vector<std::byte>> memory;
};

/// The same tensors with the same strides; those already on the host are not copied. Waits for the GPU's
/// pending work.
Result<HostCopy> host_copy(const regard_arguments&);

}  // namespace regard
