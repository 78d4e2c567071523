// Ed25519 public keys, which decide whose signatures are accepted.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace regard {

struct PublicKey {
  std::array<std::uint8_t, 32> bytes{};
  std::string hex() const;
  friend bool operator==(const PublicKey&, const PublicKey&) = default;
  friend auto operator<=>(const PublicKey&, const PublicKey&) = default;
};

/// Whether the key can be trusted. Signatures for a point of small order can be made without a private key,
/// and a point that is not encoded canonically is not a key. A point off the curve needs no check: no
/// signature is valid for it.
Status check_key(const PublicKey&);

/// From 64 hex digits, checked.
Result<PublicKey> parse_public_key(std::string_view hex);

}  // namespace regard
