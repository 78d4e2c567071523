#include "engine/embedded_bundle.h"

namespace regard {

// Weak: a library without a bundle does not have them, and both are null. Hidden: never those of another
// library.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern const std::byte regard_embedded_bundle[];
[[gnu::weak, gnu::visibility("hidden")]] extern const std::byte regard_embedded_bundle_end[];
}

std::span<const std::byte> embedded_bundle() {
  return {regard_embedded_bundle, regard_embedded_bundle_end};
}

}  // namespace regard
