#include "cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/json_text.h"

namespace regard::cli {
namespace {

using Json = nlohmann::json;

std::string value_text(const Json& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return json_text(value);
}

bool is_table(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::ranges::all_of(value, [](const Json& row) { return row.is_object(); });
}

/// A list of objects: one column for each key that any of them has.
std::string table_of(const Json& list) {
  std::vector<std::string> keys;
  for (const Json& row : list) {
    for (const auto& [key, value] : row.items()) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  // The columns that name a row come first, those that explain it last.
  const auto rank = [](const std::string& key) {
    return key == "name" ? 0 : key == "doc" || key == "why_not" ? 2 : 1;
  };
  std::ranges::stable_sort(keys, {}, rank);
  std::vector<std::vector<std::string>> rows = {keys};
  for (const Json& row : list) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (const std::string& key : keys) cells.push_back(cell(row, key.c_str()));
  }
  return table(rows);
}

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  if (result.ends_with("\n  ")) result.resize(result.size() - 2);
  return result;
}

}  // namespace

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string cell(const Json& object, const char* key) {
  const auto value = object.find(key);
  return value == object.end() ? "" : value_text(*value);
}

std::string readable(const Json& value) {
  if (is_table(value)) return table_of(value);
  if (!value.is_object()) return value_text(value) + "\n";
  std::string text;
  for (const auto& [key, entry] : value.items()) {
    const bool nested = entry.is_object() || is_table(entry);
    text +=
        nested ? key + "\n" + indented(readable(entry)) : fmt::format("{:<18} {}\n", key, value_text(entry));
  }
  return text;
}

std::string readable_bytes(double bytes) {
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(units)) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} {}", bytes, units[unit])
                   : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string readable_ms(double milliseconds) {
  if (milliseconds < 1) return fmt::format("{:.3g} us", milliseconds * 1000);
  if (milliseconds < 1000) return fmt::format("{:.3g} ms", milliseconds);
  return fmt::format("{:.3g} s", milliseconds / 1000);
}

}  // namespace regard::cli
