// JSON to and from text. Compiled once: each file that includes the library's parser or writer takes seconds
// longer to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace regard::cli {

/// On one line, or indented by that many spaces. Bytes that are not UTF-8, as in some paths, are replaced by
/// U+FFFD.
std::string json_text(const nlohmann::json&, int indent = -1);
std::string json_text(const nlohmann::ordered_json&, int indent = -1);

/// The library's answer as JSON.
nlohmann::json json_of(std::string_view text);
/// The same with members in the order of the text.
nlohmann::ordered_json ordered_json_of(std::string_view text);

}  // namespace regard::cli
