#include "base/text.h"

#include <algorithm>

namespace regard {
namespace {

constexpr std::size_t longest_word = 300;

constexpr bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Control characters, line and paragraph separators, direction marks, which can make a terminal show another
/// text than it was given, and the byte order mark, which is invisible.
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

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return lower(c); });
  return result;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Utf8Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, first, true};
  if (first < 0xC2 || first > 0xF4) return {1, 0, false};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  // The second byte shows whether the encoding is overlong, a surrogate or beyond the last code point.
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

std::string without_secrets(std::string_view url) {
  constexpr std::string_view secret = "***", after_scheme = "://";
  std::string shown;
  // The last one: a password that was not escaped can itself contain any character.
  if (const std::size_t at = url.rfind('@'); at != std::string_view::npos) {
    if (const std::size_t end = url.find(after_scheme); end < at)
      shown = url.substr(0, end + after_scheme.size());
    shown += secret;
    url.remove_prefix(at);
  }
  const std::size_t path_end = url.find_first_of("?#");
  shown += url.substr(0, path_end);
  if (path_end != std::string_view::npos) shown.append(1, url[path_end]).append(secret);
  return printable(shown);
}

}  // namespace regard
