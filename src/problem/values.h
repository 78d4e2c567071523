// One value of a field as text: printing is canonical, parsing is strict.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "problem/words.h"

namespace regard {

std::string value_text(bool value);
std::string value_text(std::int64_t value);
std::string value_text(double value);  ///< the shortest text that parses to the same double
std::string value_text(const OptionalScale& value);
std::string value_text(const InternedText& value);
std::string value_text(const FunctionNumbers& value);
template <class Enum>
  requires std::is_enum_v<Enum>
std::string value_text(Enum value) {
  return std::string(word(value));
}

/// -0 equals 0, and equal problems have one text, one JSON and one hash.
inline double without_sign_of_zero(double value) {
  return value + 0.0;
}

/// A value to show to a user who omitted it.
inline std::string_view example_of(std::int64_t) {
  return "512";
}
inline std::string_view example_of(double) {
  return "0.125";
}
inline std::string_view example_of(const OptionalScale&) {
  return "0.125";
}
inline std::string_view example_of(const FunctionNumbers&) {
  return "n0:64";
}
/// Of the fields that are text.
std::string_view example_of_text(std::string_view name);
template <class Enum>
  requires std::is_enum_v<Enum>
std::string_view example_of(Enum) {
  return words_of<Enum>()[1].word;  // the first one is usually the default
}
/// "s needs a number, as in s=512"
Status needs_value(std::string_view name, std::string_view kind, std::string_view example);

/// Parses `text` as the value of `name`; the error quotes both.
Status read_value(std::string_view name, std::string_view text, std::int64_t& value);
Status read_value(std::string_view name, std::string_view text, double& value);
Status read_value(std::string_view name, std::string_view text, OptionalScale& value);
Status read_value(std::string_view name, std::string_view text, FunctionNumbers& value);
Status unknown_value(std::string_view name, std::string_view text, std::span<const WordInfo> words);
template <class Enum>
  requires std::is_enum_v<Enum>
Status read_value(std::string_view name, std::string_view text, Enum& value) {
  if (text.empty()) return needs_value(name, "a value", example_of(value));
  const std::optional<Enum> found = from_word<Enum>(text);
  if (!found) return unknown_value(name, text, words_of<Enum>());
  value = *found;
  return {};
}

}  // namespace regard
