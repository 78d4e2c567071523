#include "engine/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace regard {
namespace {

/// Whether readers find all that they look for (describe() in resolve.cpp).
bool are_resources(const nlohmann::json& found) {
  if (!found.is_object()) return false;
  for (const char* name : {"registers", "stack_bytes", "spill_bytes", "shared_bytes", "barriers", "wgmma"}) {
    const auto number = found.find(name);
    if (number == found.end() || !number->is_number_integer()) return false;
  }
  const auto warnings = found.find("warnings");
  return warnings != found.end() && warnings->is_array() &&
         std::ranges::all_of(*warnings, [](const nlohmann::json& warning) { return warning.is_string(); });
}

}  // namespace

Manifest::Manifest(const std::string& json) {
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) return;
  for (const auto& [name, field] : {std::pair("kernel", &kernel), std::pair("compiler", &compiler)}) {
    const auto found = parsed.find(name);
    if (found != parsed.end() && found->is_string()) *field = found->get<std::string>();
  }
  const auto found = parsed.find("resources");
  if (found != parsed.end() && are_resources(*found)) resources = found->dump();
}

}  // namespace regard
