// What is stored for a compiled kernel, and where it comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/public_key.h"

namespace regard {

/// Where a cache entry comes from. Only the user can write to the cache's folder, so this record is reliable.
struct Origin {
  bool compiled = false;            ///< here, by a process of this user
  std::optional<PublicKey> signer;  ///< of an entry from elsewhere, if it was signed
  friend bool operator==(const Origin&, const Origin&) = default;
};

/// The reason why an entry is not trusted.
inline constexpr const char* untrusted = "it was neither compiled here nor signed with a trusted key";

/// If trusted keys are set, an entry is trusted if it was compiled here or signed with one of them.
bool is_trusted(const Origin&, std::span<const PublicKey> trusted);

/// The limits of an entry: many times what a kernel takes. Larger ones are neither stored nor read.
inline constexpr std::uint64_t largest_manifest_bytes = 1 << 20;
inline constexpr std::uint64_t largest_payload_bytes = 64 << 20;

struct CacheEntry {
  std::string manifest;  ///< a JSON object, for people and `regard cache list`
  std::vector<std::byte> payload;
  std::string uncacheable = {};  ///< why it must not be cached; empty when it can be
  Origin origin = {};
};

}  // namespace regard
