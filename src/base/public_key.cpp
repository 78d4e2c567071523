#include "base/public_key.h"

#include <algorithm>
#include <optional>

#include "base/digest.h"
#include "base/text.h"

namespace regard {
namespace {

constexpr std::uint8_t not_the_sign = 0x7f;  // the last byte's first bit says whether x is odd

/// y of the eight points whose order divides 8, little-endian.
constexpr std::string_view small_orders[] = {
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
};

/// Whether y is below 2^255 - 19, as RFC 8032 requires. OpenSSL accepts larger numbers, some of which also
/// represent points of small order.
bool is_reduced(const PublicKey& y) {
  const auto is_full = [](std::uint8_t byte) { return byte == 0xff; };
  return y.bytes.back() != not_the_sign || y.bytes.front() < 0xed ||
         !std::all_of(y.bytes.begin() + 1, y.bytes.end() - 1, is_full);
}

}  // namespace

std::string PublicKey::hex() const {
  return Digest{bytes}.hex();
}

Status check_key(const PublicKey& key) {
  PublicKey y = key;
  y.bytes.back() &= not_the_sign;
  if (!is_reduced(y))
    return invalid(in_quotes(key.hex()) + " is not a public key, as its number is too large");
  if (std::ranges::find(small_orders, y.hex()) == std::end(small_orders)) return {};
  return invalid(in_quotes(key.hex()) +
                 " cannot be a public key: it is a point of small order, for which anyone can sign");
}

Result<PublicKey> parse_public_key(std::string_view hex) {
  const std::optional<Digest> digits = parse_digest(hex);
  if (!digits)
    return invalid(
        in_quotes(hex) +
        " is not a public key, which is the 64 digits (0-9, a-f) that `regard bundle keygen` prints");
  const PublicKey key{digits->bytes};
  return check_key(key).map([&] { return key; });
}

}  // namespace regard
