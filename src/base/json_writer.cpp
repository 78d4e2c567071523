#include "base/json.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace regard {
namespace {

void append_escaped(std::string& out, char c) {
  constexpr std::string_view letters = "btn.fr";  // from '\b' to '\r'; '\v' has none
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
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";  // stays floating-point
  raw(text);
}

void JsonWriter::value(std::string_view text) {
  separate();
  text_ += '"';
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    const bool special = character.code < 0x20 || character.code == '"' || character.code == '\\';
    if (!character.right) {
      text_ += "\xEF\xBF\xBD";
    } else if (special) {
      append_escaped(text_, text[0]);
    } else {
      text_ += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  text_ += '"';
}

}  // namespace regard
