// Who made a bundle: an Ed25519 signature over its header, which holds the SHA-256 of the index, which holds
// that of each kernel. So it covers every byte before it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/public_key.h"
#include "base/result.h"

namespace regard {

namespace bundle {

struct Signature {
  PublicKey signer;
  std::array<std::uint8_t, 64> bytes{};
};

/// The size of a signature in a file: a mark, the key, the signature.
inline constexpr std::size_t signature_bytes = 8 + 32 + 64;
std::vector<std::byte> encode(const Signature&);
/// Reads the bytes that follow an index.
Result<Signature> decode_signature(std::span<const std::byte>);

/// Whether the owner of the key has signed exactly these bytes.
Status check(const Signature&, std::span<const std::byte> signed_bytes);

/// Whether these bytes may be used: where there are trusted keys, one of them must have signed; a signature
/// must be valid in any case.
Status check_signer(const std::optional<Signature>&, std::span<const std::byte> signed_bytes,
                    std::span<const PublicKey> trusted);

}  // namespace bundle
}  // namespace regard
