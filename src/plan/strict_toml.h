// Reading TOML strictly: an unknown key or a wrong type is an error with file, line and the nearest valid
// word, and every number has a range. Only the .cpp files that read data include this (toml++ is a heavy
// header).
#pragma once

#include <fmt/format.h>

// The parser asserts conditions that a text can violate and that its next step reports as errors: a text must
// not end the process.
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "base/result.h"
#include "base/text.h"
#include "problem/words.h"

namespace regard {

/// "sm_90a" of "targets/sm_90a.toml".
inline std::string stem_of(std::string_view file) {
  file.remove_prefix(file.find_last_of('/') + 1);
  return std::string(file.substr(0, file.find(".toml")));
}

/// One value of a TOML file, with what an error message needs.
struct TomlValue {
  const toml::node& node;
  std::string_view file, key;

  static constexpr double most_real = 1e9;

  std::string where() const { return fmt::format("{}:{}", file, node.source().begin.line); }

  tl::unexpected<Error> wrong(std::string_view expected) const {
    return invalid(fmt::format("{}: '{}' must be {}", where(), key, expected));
  }

  Status text(std::string& out) const {
    const auto value = node.value_exact<std::string>();
    if (!value) return wrong("a string");
    out = *value;
    return {};
  }

  /// From `least` to `most`; checked before it is stored in `out`, which can be smaller than 64 bits.
  template <class Integer>
  Status number(Integer& out, std::int64_t least = 0,
                std::int64_t most = std::numeric_limits<Integer>::max()) const {
    const auto value = node.value_exact<std::int64_t>();
    if (!value) return wrong("a whole number");
    if (*value < 0 && least == 0) return invalid(fmt::format("{}: '{}' must not be negative", where(), key));
    if (*value < least || *value > most) {
      return invalid(
          fmt::format("{}: '{}' is {}, but must be between {} and {}", where(), key, *value, least, most));
    }
    out = static_cast<Integer>(*value);
    return {};
  }

  Status flag(bool& out) const {
    const auto value = node.value_exact<bool>();
    if (!value) return wrong("true or false");
    out = *value;
    return {};
  }

  Status real(double& out) const {
    const auto value = node.value<double>();
    if (!value || !node.is_number()) return wrong("a number");
    if (!(*value >= 0 && *value <= most_real))
      return invalid(
          fmt::format("{}: '{}' is {}, but must be between 0 and {}", where(), key, *value, most_real));
    out = *value;
    return {};
  }

  Status texts(std::vector<std::string>& out) const {
    const toml::array* array = node.as_array();
    if (array == nullptr) return wrong("a list of strings");
    for (const toml::node& item : *array) {
      out.emplace_back();
      if (Status status = TomlValue{item, file, key}.text(out.back()); !status) return status;
    }
    return {};
  }

  /// A list of strings that must each be one of `words`.
  Status texts(std::vector<std::string>& out, std::span<const std::string_view> known) const {
    if (Status status = texts(out); !status) return status;
    for (const std::string& name : out) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return invalid(fmt::format("{}: {} is no value of '{}'{}", where(), in_quotes(name), key,
                                   suggestion(name, known)));
      }
    }
    return {};
  }

  /// A string that must be one of `words`.
  Status word(std::string& out, std::span<const std::string_view> words) const {
    if (Status status = text(out); !status) return status;
    for (std::string_view known : words) {
      if (out == known) return {};
    }
    return invalid(fmt::format("{}: {} is no {}{}", where(), in_quotes(out), key, suggestion(out, words)));
  }

  /// A list of an enumeration's words.
  template <class Enum>
  Status words(std::vector<Enum>& out) const {
    std::vector<std::string> names;
    if (Status status = texts(names); !status) return status;
    for (const std::string& name : names) {
      const std::optional<Enum> value = from_word<Enum>(name);
      if (!value) {
        std::vector<std::string_view> known;
        for (const WordInfo& info : words_of<Enum>()) known.push_back(info.word);
        return invalid(fmt::format("{}: {} is no value of '{}'{}", where(), in_quotes(name), key,
                                   suggestion(name, known)));
      }
      out.push_back(*value);
    }
    return {};
  }
};

using TomlReader = std::function<Status(const TomlValue&)>;

/// Passes each key of `table` to its reader.
inline Status read_table(const toml::table& table, std::string_view file,
                         const std::map<std::string_view, TomlReader>& readers) {
  for (const auto& [key, node] : table) {
    const TomlValue value{node, file, key.str()};
    const auto reader = readers.find(key.str());
    if (reader == readers.end()) {
      std::vector<std::string_view> known;
      for (const auto& [name, unused] : readers) known.push_back(name);
      return invalid(fmt::format("{}: unknown key {}{}", value.where(), in_quotes(key.str()),
                                 suggestion(key.str(), known)));
    }
    if (Status status = reader->second(value); !status) return status;
  }
  return {};
}

/// A list of tables, each passed to `read` with its line.
inline Status read_tables(const TomlValue& value,
                          const std::function<Status(const toml::table&, int)>& read) {
  const toml::array* array = value.node.as_array();
  if (array == nullptr) return value.wrong("a list of tables, [[...]] or [{ ... }]");
  for (const toml::node& item : *array) {
    const toml::table* table = item.as_table();
    if (table == nullptr) return value.wrong("a list of tables, [[...]] or [{ ... }]");
    if (Status status = read(*table, static_cast<int>(item.source().begin.line)); !status) return status;
  }
  return {};
}

/// Long enough for any file that people read, and short enough that nothing of quadratic cost takes long.
inline constexpr std::size_t longest_toml = 1 << 18;
/// A dotted key is a nested table for each dot, and these are destroyed recursively.
inline constexpr std::ptrdiff_t most_dots_in_line = 100;

inline Result<toml::table> parse_toml(std::string_view text, std::string_view file) {
  if (text.size() > longest_toml)
    return invalid(
        fmt::format("{}: it is {} bytes long, but may have at most {}", file, text.size(), longest_toml));
  int number = 0;
  for (const std::string_view line : split(text, "\n")) {
    ++number;
    if (std::ranges::count(line, '.') > most_dots_in_line)
      return invalid(fmt::format("{}:{}: it has more than {} dots", file, number, most_dots_in_line));
  }
  // Without a file name, a copy of which would be allocated where nothing may throw.
  toml::parse_result parsed = toml::parse(text);
  if (parsed) return std::move(parsed).table();
  const toml::parse_error& error = parsed.error();
  return invalid(fmt::format("{}:{}: {}", file, error.source().begin.line, printable(error.description())));
}

}  // namespace regard
