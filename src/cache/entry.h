// One entry as bytes: header, manifest, payload, checksum over everything before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/files.h"
#include "cache/cache.h"

namespace regard::cache {

/// Increased when the layout changes: entries of another schema are misses.
inline constexpr std::uint32_t schema = 1;

/// With a manifest and a payload of the largest allowed size.
extern const std::int64_t largest_entry_bytes;

std::vector<std::byte> encode(const Digest& key, const CacheEntry&);
/// The same with a different origin.
std::vector<std::byte> encode(const Digest& key, const CacheEntry&, const Origin&);

/// The entry, or what is wrong with the bytes.
Result<CacheEntry> decode(const Digest& key, std::span<const std::byte> file);

/// The same for a file, of which no more is read than an entry can have; or what is wrong with it. One with a
/// wrong header or length is not read at all.
Result<CacheEntry> read_entry(const Digest& key, const RegularFile&);

/// Everything before the payload.
struct Beginning {
  Origin origin;
  std::string manifest;
};
/// Of a file, unverified: for lists.
Result<Beginning> read_beginning(const Digest& key, const RegularFile&);

/// A non-empty JSON object without duplicate names: lists pass manifests on as JSON, so anything else must be
/// caught here.
Result<std::string> checked_manifest(std::span<const std::byte>);

}  // namespace regard::cache
