// Tensors that lie on a GPU, copied to the host, for the oracle.
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

/// The same tensors with the same strides; those that lie on the host already stay where they are. Waits for
/// what the GPU has been given to do.
Result<HostCopy> host_copy(const regard_arguments&);

}  // namespace regard
