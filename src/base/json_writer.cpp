#include "base/json_writer.h"

#include <fmt/format.h>

#include <cmath>

namespace regard {
namespace {

/// How many bytes at the beginning of `text` are one character of UTF-8, or, with `right` false, its
/// beginning that nothing right can follow.
std::size_t character(std::string_view text, bool& right) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  right = true;
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  // The second byte says whether the character is too long for its number, a surrogate or beyond the last.
  const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  right = first >= 0xC2 && first <= 0xF4;
  if (!right) return 1;
  for (std::size_t i = 1; i < length; ++i) {
    const bool fits = i == 1 ? byte(i) >= least && byte(i) <= most : (byte(i) & 0xC0) == 0x80;
    if (fits) continue;
    right = false;
    return i;
  }
  return length;
}

void append_escaped(std::string& out, char c) {
  constexpr std::string_view letters = "btn.fr";  // of '\b' to '\r'; there is none of '\v'
  if (c == '"' || c == '\\') {
    (out += '\\') += c;
  } else if (c >= '\b' && c <= '\r' && c != '\v') {
    (out += '\\') += letters[static_cast<std::size_t>(c - '\b')];
  } else {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  }
}

}  // namespace

void JsonWriter::separate() {
  if (text_.empty()) return;
  const char last = text_.back();
  if (last != '{' && last != '[' && last != ':') text_ += ',';
}

void JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
}

void JsonWriter::value(bool flag) {
  raw(flag ? "true" : "false");
}

void JsonWriter::value(std::int64_t number) {
  raw(fmt::to_string(number));
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  std::string text = fmt::to_string(number);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";  // it stays a floating one
  raw(text);
}

void JsonWriter::value(std::string_view text) {
  separate();
  text_ += '"';
  while (!text.empty()) {
    bool right = true;
    const std::size_t length = character(text, right);
    const char first = text[0];
    const bool special =
        length == 1 && (static_cast<unsigned char>(first) < 0x20 || first == '"' || first == '\\');
    if (!right) {
      text_ += "\xEF\xBF\xBD";
    } else if (special) {
      append_escaped(text_, first);
    } else {
      text_ += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  text_ += '"';
}

}  // namespace regard
