#include "engine/manifest.h"

#include <nlohmann/json.hpp>

namespace regard {

Manifest::Manifest(const std::string& json) {
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) return;
  for (const auto& [name, field] : {std::pair("kernel", &kernel), std::pair("compiler", &compiler)}) {
    const auto found = parsed.find(name);
    if (found != parsed.end() && found->is_string()) *field = found->get<std::string>();
  }
  const auto found = parsed.find("resources");
  if (found != parsed.end() && found->is_object()) resources = found->dump();
}

}  // namespace regard
