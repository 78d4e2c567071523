#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace regard {
namespace {

constexpr std::size_t longest_word = 300;

constexpr bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  ///< 0: no UTF-8
};

/// The first character: in the shortest form that there is, and no half of a UTF-16 pair.
Character first_of(std::string_view text) {
  static constexpr std::array<std::uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const auto head = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = head < 0x80   ? 1
                            : head < 0xC0 ? 0
                            : head < 0xE0 ? 2
                            : head < 0xF0 ? 3
                            : head < 0xF8 ? 4
                                          : 0;
  if (bytes == 0 || bytes > text.size()) return {};
  if (bytes == 1) return {head, 1};
  std::uint32_t code = head & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues(text[i])) return {};
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  }
  const bool half = code >= 0xD800 && code <= 0xDFFF;
  return code < least[bytes] || half || code > 0x10FFFF ? Character{} : Character{code, bytes};
}

/// Controls, separators of lines and paragraphs, and marks of direction, which can make a terminal show
/// another text than it was given.
constexpr bool acts(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

std::string hexadecimal(std::uint32_t number, int digits) {
  std::string text;
  for (int i = digits; i-- > 0;) text += "0123456789abcdef"[number >> (4 * i) & 15];
  return text;
}

std::string escape(std::uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return code < 0x80 ? "\\x" + hexadecimal(code, 2) : "\\u" + hexadecimal(code, 4);
  }
}

}  // namespace

std::string printable(std::string_view text, Newlines newlines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto [code, bytes] = first_of(text);
    const bool layout = newlines == Newlines::kept && (code == '\n' || code == '\t');
    if (bytes == 0) {
      result += "\\x" + hexadecimal(static_cast<unsigned char>(text[0]), 2);
    } else if (acts(code) && !layout) {
      result += escape(code);
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return result;
}

std::string shortened(std::string text, std::size_t most) {
  static constexpr std::string_view cut = " [...] ";
  if (text.size() <= most) return text;
  const std::size_t kept = (most - std::min(most, cut.size())) / 2;
  std::size_t begin = kept, end = text.size() - kept;
  while (begin > 0 && continues(text[begin])) --begin;
  while (end < text.size() && continues(text[end])) ++end;
  text.replace(begin, end - begin, cut);
  return text;
}

std::string in_quotes(std::string_view word) {
  return "'" + printable(shortened(std::string(word), longest_word)) + "'";
}

}  // namespace regard
