#include "engine/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace regard {
namespace {

/// Whether readers find all that they look for.
bool are_resources(const nlohmann::json& found) {
  if (!found.is_object()) return false;
  const nlohmann::json complete = resources_json({});
  return std::ranges::all_of(complete.items(), [&](const auto& item) {
    const auto value = found.find(item.key());
    if (value == found.end()) return false;
    if (!item.value().is_array()) return value->is_number_integer();
    return value->is_array() &&
           std::ranges::all_of(*value, [](const nlohmann::json& text) { return text.is_string(); });
  });
}

}  // namespace

nlohmann::json resources_json(const Resources& used) {
  return {{"registers", used.registers},
          {"stack_bytes", used.stack_bytes},
          {"spill_bytes", used.spill_store_bytes + used.spill_load_bytes},
          {"shared_bytes", used.shared_bytes},
          {"barriers", used.barriers},
          {"wgmma", used.wgmma},
          {"warnings", used.performance_warnings}};
}

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
