#include "base/utf8.h"

namespace regard {

Utf8Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, first, true};
  if (first < 0xC2 || first > 0xF4) return {1, 0, false};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  // The second byte says whether the character is too long for its number, a surrogate or beyond the last.
  const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  std::uint32_t code = first & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const bool fits = i == 1 ? byte(i) >= least && byte(i) <= most : (byte(i) & 0xC0) == 0x80;
    if (!fits) return {i, 0, false};
    code = code << 6 | (byte(i) & 0x3F);
  }
  return {length, code, true};
}

}  // namespace regard
