// JSON from the library as text for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace regard::cli {

/// Columns as wide as their widest cell; the last one is not padded. The first row is the header.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// Any JSON: objects as "name  value" lines, lists of objects as tables.
std::string readable(const nlohmann::json&);

/// A string, number or null as the printable text in a cell; absent keys are "".
std::string cell(const nlohmann::json& object, const char* key);

/// "1.5 MiB"
std::string readable_bytes(double bytes);

/// "1.25 ms", "830 us"
std::string readable_ms(double milliseconds);

}  // namespace regard::cli
