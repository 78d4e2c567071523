// The bundle that a library has in itself which `regard build` has made (src/aot/library.cpp).
#pragma once

#include <cstddef>
#include <span>

namespace regard {

/// Empty in every other library.
std::span<const std::byte> embedded_bundle();

}  // namespace regard
