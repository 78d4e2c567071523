#include "base/printable.h"

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"

namespace regard {
namespace {

constexpr std::size_t longest_word = 300;

constexpr bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Controls, separators of lines and paragraphs, marks of direction, which can make a terminal show another
/// text than it was given, and the mark of byte order, which nobody sees.
constexpr bool acts(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
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
    const auto [bytes, code, right] = first_character(text);
    const bool layout = newlines == Newlines::kept && (code == '\n' || code == '\t');
    if (!right) {
      for (const char byte : text.substr(0, bytes))
        result += "\\x" + hexadecimal(static_cast<unsigned char>(byte), 2);
    } else if (acts(code) && !layout) {
      result += escape(code);
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
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
