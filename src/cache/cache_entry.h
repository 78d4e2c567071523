// What is kept of a compiled kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/origin.h"

namespace regard {

/// What an entry may have: many times what a kernel takes. More is neither kept nor read.
inline constexpr std::uint64_t largest_manifest_bytes = 1 << 20;
inline constexpr std::uint64_t largest_payload_bytes = 64 << 20;

struct CacheEntry {
  std::string manifest;  ///< a JSON object, for people and `regard cache list`
  std::vector<std::byte> payload;
  std::string unfit = {};  ///< why it must not be kept; empty when it may
  Origin origin = {};
};

}  // namespace regard
