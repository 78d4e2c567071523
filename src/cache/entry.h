// One entry as bytes: header, manifest, payload, checksum over all before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/files.h"
#include "cache/cache.h"

namespace regard::cache {

/// Raised when the layout changes: entries of another schema are misses.
inline constexpr std::uint32_t schema = 1;

/// Of a manifest and a payload as large as they may be.
extern const std::int64_t largest_entry_bytes;

std::vector<std::byte> encode(const Digest& key, const CacheEntry&);
/// The same with another origin than its own.
std::vector<std::byte> encode(const Digest& key, const CacheEntry&, const Origin&);

/// The entry, or what is wrong with the bytes.
Result<CacheEntry> decode(const Digest& key, std::span<const std::byte> file);

/// The same of a file, of which no more is read than an entry may have; or what is wrong with it. One whose
/// header or length is wrong is not read at all.
Result<CacheEntry> read_entry(const Digest& key, const RegularFile&);

/// What comes before the payload.
struct Beginning {
  Origin origin;
  std::string manifest;
};
/// That of a file, unverified: for lists.
Result<Beginning> read_beginning(const Digest& key, const RegularFile&);

/// A JSON object that says something, and nothing twice: lists hand manifests on as JSON, so what is none
/// never gets that far.
Result<std::string> checked_manifest(std::span<const std::byte>);

}  // namespace regard::cache
