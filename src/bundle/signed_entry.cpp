#include "bundle/signed_entry.h"

#include <algorithm>
#include <optional>

#include "bundle/signing.h"
#include "cache/entry.h"

namespace regard {

const std::uint64_t largest_signed_entry_bytes =
    static_cast<std::uint64_t>(cache::largest_entry_bytes) + bundle::signature_bytes;

Result<std::vector<std::byte>> encode_signed(const Digest& key, const CacheEntry& entry,
                                             const std::string& key_file) {
  std::vector<std::byte> bytes = cache::encode(key, entry, Origin());
  if (key_file.empty()) return bytes;
  const Result<bundle::Signature> signature = sign(bytes, key_file);
  if (!signature) return tl::unexpected(signature.error());
  const std::vector<std::byte> encoded = bundle::encode(*signature);
  bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  return bytes;
}

Result<CacheEntry> decode_signed(const Digest& key, std::span<const std::byte> bytes,
                                 std::span<const PublicKey> trusted) {
  const std::size_t signature_bytes = std::min(bytes.size(), bundle::signature_bytes);
  const Result<bundle::Signature> read = bundle::decode_signature(bytes.last(signature_bytes));
  const auto signature = read ? std::optional(*read) : std::nullopt;
  const std::span<const std::byte> entry = signature ? bytes.first(bytes.size() - signature_bytes) : bytes;
  if (const Status right = bundle::check_signer(signature, entry, trusted); !right)
    return tl::unexpected(right.error());
  Result<CacheEntry> decoded = cache::decode(key, entry);
  if (!decoded) return decoded;
  if (decoded->origin != Origin()) return invalid("it claims an origin, which only a cache records");
  if (signature) decoded->origin.signer = signature->signer;
  return decoded;
}

}  // namespace regard
