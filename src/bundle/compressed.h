// A cache entry as stored in a bundle: one zstd frame of the manifest's length, the manifest and the binary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/cache_entry.h"

namespace regard::bundle {

/// The smallest and largest size of an entry before and after packing.
inline constexpr std::uint64_t least_entry_bytes = sizeof(std::uint64_t);
inline constexpr std::uint64_t largest_entry_bytes =
    least_entry_bytes + largest_manifest_bytes + largest_payload_bytes;
extern const std::uint64_t largest_compressed_bytes;

struct Compressed {
  std::vector<std::byte> bytes;
  std::uint64_t entry_bytes;  ///< unpacked
};

/// The error says why a bundle cannot have this entry.
Result<Compressed> compress(const CacheEntry&);

/// Takes no more memory than an entry of that many bytes needs, whatever the input contains.
Result<CacheEntry> decompress(std::span<const std::byte> compressed, std::uint64_t entry_bytes);

}  // namespace regard::bundle
