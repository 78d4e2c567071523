#include "engine/cached_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/settings.h"
#include "engine/manifest.h"
#include "engine/resolve.h"

namespace regard {
namespace {

using nlohmann::json;

std::string line_of(const std::string& kernel, const json& resources) {
  const auto number = [&](const char* name) { return resources.value(name, std::int64_t{0}); };
  return fmt::format("  {}: {} registers, {} bytes spilled, {} of stack, {} of static shared memory\n",
                     kernel, number("registers"), number("spill_bytes"), number("stack_bytes"),
                     number("shared_bytes"));
}

}  // namespace

std::map<std::string, std::string> cached_kernels() {
  std::map<std::string, std::string> found;
  const Result<Settings>& current = settings();
  if (!current || !current->cache) return found;
  const Result<Cache*> cache = process_cache();
  if (!cache) return found;
  std::vector<CacheEntryInfo> entries = (*cache)->list();
  std::ranges::sort(entries, {}, &CacheEntryInfo::used_unix_seconds);
  for (const CacheEntryInfo& entry : entries) {
    const Manifest manifest(entry.manifest);
    if (!manifest.kernel.empty()) found[manifest.kernel] = manifest.resources;
  }
  return found;
}

std::string describe(const Explanation& explanation, std::string_view format) {
  const bool for_people = format != "json";
  std::string text = for_people ? to_text(explanation, format == "all") : to_json(explanation);
  if (!explanation.plan) return text;
  const std::map<std::string, std::string> cached = cached_kernels();
  json parsed = for_people ? json() : json::parse(text);
  for (std::size_t i = 0; i < explanation.plan->stages.size(); ++i) {
    const KernelKey& key = explanation.plan->stages[i].kernel;
    const auto known = cached.find(print(key));
    if (known == cached.end() || known->second.empty()) continue;
    const json resources = json::parse(known->second);
    if (for_people)
      text += line_of(key.algorithm.kernel, resources);
    else
      parsed["plan"]["stages"][i]["resources"] = resources;
  }
  return for_people ? text : json_text(parsed);
}

}  // namespace regard
