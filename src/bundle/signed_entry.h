// A cache entry as it travels between machines: its bytes, followed, where there is a key, by a signature
// over all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "bundle/signature.h"
#include "cache/cache_entry.h"

namespace regard {

extern const std::uint64_t largest_signed_entry_bytes;

/// Signed with the key in a file; not signed if its name is empty.
Result<std::vector<std::byte>> encode_signed(const Digest& key, const CacheEntry&,
                                             const std::string& key_file);

/// The entry, or what is wrong with the bytes. Where there are trusted keys, one of them must have signed it;
/// a signature must be valid in any case.
Result<CacheEntry> decode_signed(const Digest& key, std::span<const std::byte>,
                                 std::span<const PublicKey> trusted);

}  // namespace regard
