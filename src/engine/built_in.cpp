#include "engine/built_in.h"

#include <algorithm>

namespace regard {

cpu::KernelFunction find_built_in(std::string_view key) {
  const std::span<const BuiltInKernel> all = built_in_kernels();
  const auto found = std::lower_bound(
      all.begin(), all.end(), key,
      [](const BuiltInKernel& kernel, std::string_view requested) { return kernel.key < requested; });
  return found != all.end() && found->key == key ? found->function : nullptr;
}

}  // namespace regard
