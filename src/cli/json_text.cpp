#include "cli/json_text.h"

#include <nlohmann/json.hpp>

namespace regard::cli {
namespace {

template <class Json>
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string json_text(const nlohmann::json& json, int indent) {
  return text_of(json, indent);
}
std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return text_of(json, indent);
}

nlohmann::json json_of(std::string_view text) {
  return nlohmann::json::parse(text);
}
nlohmann::ordered_json ordered_json_of(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

}  // namespace regard::cli
