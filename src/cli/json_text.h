// JSON to and from text. Compiled once: each file that has the library's parser or writer compiled takes
// seconds more.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace regard::cli {

/// On one line, or indented by so many spaces. What is no UTF-8, as a path need not be, has U+FFFD in its
/// place.
std::string json_text(const nlohmann::json&, int indent = -1);
std::string json_text(const nlohmann::ordered_json&, int indent = -1);

/// What the library answers.
nlohmann::json json_of(std::string_view text);
/// The same with members in the order of the text.
nlohmann::ordered_json ordered_json_of(std::string_view text);

}  // namespace regard::cli
