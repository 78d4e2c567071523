// An entry of the cache as a bundle has it: one frame of zstd of the manifest's length, the manifest and the
// binary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/cache_entry.h"

namespace regard::bundle {

/// What an entry can and may have before it is packed, and afterwards.
inline constexpr std::uint64_t least_entry_bytes = sizeof(std::uint64_t);
inline constexpr std::uint64_t largest_entry_bytes =
    least_entry_bytes + largest_manifest_bytes + largest_payload_bytes;
extern const std::uint64_t largest_packed_bytes;

struct Packed {
  std::vector<std::byte> bytes;
  std::uint64_t entry_bytes;  ///< unpacked
};

/// The error says why a bundle cannot have this entry.
Result<Packed> pack(const CacheEntry&);

/// Takes no more memory than an entry of so many bytes needs, whatever is in there.
Result<CacheEntry> unpack(std::span<const std::byte> packed, std::uint64_t entry_bytes);

}  // namespace regard::bundle
