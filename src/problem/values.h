// One value of a field as text: printing is canonical, reading is strict.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "problem/words.h"

namespace regard {

std::string value_text(bool value);
std::string value_text(std::int64_t value);
std::string value_text(double value);  ///< the shortest text that reads back as the same double
std::string value_text(const OptionalScale& value);
template <class Enum>
  requires std::is_enum_v<Enum>
std::string value_text(Enum value) {
  return std::string(word(value));
}

/// Reads `text` as the value of `name`; the error quotes both.
Status read_value(std::string_view name, std::string_view text, std::int64_t& value);
Status read_value(std::string_view name, std::string_view text, double& value);
Status read_value(std::string_view name, std::string_view text, OptionalScale& value);
Status unknown_value(std::string_view name, std::string_view text, std::span<const WordInfo> words);
template <class Enum>
  requires std::is_enum_v<Enum>
Status read_value(std::string_view name, std::string_view text, Enum& value) {
  const std::optional<Enum> found = from_word<Enum>(text);
  if (!found) return unknown_value(name, text, words_of<Enum>());
  value = *found;
  return {};
}

}  // namespace regard
