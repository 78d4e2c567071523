#include "base/digest.h"

// The one-call form and EVP first initialise all of OpenSSL: a millisecond, most of the cost of a cached
// kernel. These functions do not.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace regard {

std::string Digest::hex() const {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (std::uint8_t byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::optional<Digest> parse_digest(std::string_view hex) {
  Digest digest;
  if (hex.size() != 2 * digest.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const bool digit = hex[i] >= '0' && hex[i] <= '9';
    if (!digit && !(hex[i] >= 'a' && hex[i] <= 'f')) return std::nullopt;
    const int value = digit ? hex[i] - '0' : hex[i] - 'a' + 10;
    digest.bytes[i / 2] = static_cast<std::uint8_t>(digest.bytes[i / 2] * 16 + value);
  }
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, bytes.data(), bytes.size());
  SHA256_Final(digest.bytes.data(), &state);
  return digest;
}

Digest sha256(std::string_view text) {
  return sha256(std::as_bytes(std::span(text)));
}

}  // namespace regard
