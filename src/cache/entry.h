// One entry as bytes: header, manifest, payload, checksum over all before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/cache.h"

namespace regard::cache {

/// Raised when the layout changes: entries of another schema are misses.
inline constexpr std::uint32_t schema = 1;

std::vector<std::byte> encode(const Digest& key, const CacheEntry&);

/// The entry, or what is wrong with the bytes.
Result<CacheEntry> decode(const Digest& key, std::span<const std::byte> file);

/// The manifest from the beginning of a file, unverified: for lists.
Result<std::string> decode_manifest(const Digest& key, std::span<const std::byte> file);

/// From 64 hex digits; nothing for other text.
std::optional<Digest> parse_digest(std::string_view hex);

}  // namespace regard::cache
