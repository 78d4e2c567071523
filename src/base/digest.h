// SHA-256 through OpenSSL: content identities of kernels and cache entries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace regard {

struct Digest {
  std::array<std::uint8_t, 32> bytes{};
  std::string hex() const;
  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

/// From 64 hex digits; nothing for any other text.
std::optional<Digest> parse_digest(std::string_view hex);

Digest sha256(std::span<const std::byte> bytes);
Digest sha256(std::string_view text);

}  // namespace regard
