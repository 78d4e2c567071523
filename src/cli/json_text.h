// JSON as text, whatever is in it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace regard::cli {

/// On one line, or indented by so many spaces. What is no UTF-8, as a path need not be, has U+FFFD in its
/// place.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace regard::cli
