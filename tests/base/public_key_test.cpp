#include "base/public_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace regard {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& hex) {
  const Result<PublicKey> key = parse_public_key(hex);
  return key ? "" : key.error().message;
}

/// The key with the bit set that says that x is odd.
std::string with_odd_x(std::string hex) {
  constexpr std::string_view digits = "0123456789abcdef";
  hex[62] = digits[digits.find(hex[62]) + 8];
  return hex;
}

/// 2^255 - 19 + n, little-endian.
std::string too_large(int n) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto low = static_cast<std::size_t>(0xed + n);
  return std::string{digits[low / 16], digits[low % 16]} + std::string(60, 'f') + "7f";
}

TEST(PublicKey, IsReadAndPrinted) {
  // Test 1 of RFC 8032.
  const std::string hex = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
  EXPECT_EQ(parse_public_key(hex)->hex(), hex);
  EXPECT_EQ(refusal(with_odd_x("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")), "");
  for (const std::string& text :
       {std::string(), std::string("d75a"), hex + "0", "D" + hex.substr(1), "g" + hex.substr(1)})
    EXPECT_THAT(refusal(text), HasSubstr("is not a public key, which is the 64 digits")) << text;
}

TEST(PublicKey, IsNoPointOfSmallOrder) {
  const std::string zeros(62, '0');
  const std::string of_torsion[] = {"00" + zeros, "01" + zeros, "ec" + std::string(60, 'f') + "7f",
                                    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
                                    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"};
  for (const std::string& hex : of_torsion) {
    EXPECT_THAT(refusal(hex), HasSubstr("a point of small order, for which anyone can sign"));
    EXPECT_THAT(refusal(with_odd_x(hex)), HasSubstr("a point of small order, for which anyone can sign"));
  }
}

// OpenSSL takes 2^255 - 19 and 2^255 - 18 for the points of y = 0 and y = 1.
TEST(PublicKey, HasOneWayOfWriting) {
  for (int n = 0; n < 19; ++n) {
    EXPECT_THAT(refusal(too_large(n)), HasSubstr("its number is too large")) << n;
    EXPECT_THAT(refusal(with_odd_x(too_large(n))), HasSubstr("its number is too large")) << n;
  }
  EXPECT_THAT(refusal(too_large(-1)), HasSubstr("small order"));
  EXPECT_EQ(refusal(too_large(-2)), "");
}

}  // namespace
}  // namespace regard
