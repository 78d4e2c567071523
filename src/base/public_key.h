// Whose signatures count: public keys of Ed25519.
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

/// Whether it may sign: a signature of a point of small order can be made without its private key, and a
/// point in another way of writing than the usual one is no key. What is on no curve has no signatures either
/// way.
Status check_key(const PublicKey&);

/// From 64 hex digits, checked.
Result<PublicKey> parse_public_key(std::string_view hex);

}  // namespace regard
