#include "engine/cached_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/settings.h"
#include "compile/manifest.h"
#include "engine/resolve.h"

namespace regard {
namespace {

std::string line_of(const std::string& kernel, const Resources& used) {
  return fmt::format("  {}: {} registers, {} bytes spilled, {} of stack, {} of static shared memory\n",
                     kernel, used.registers, used.spill_store_bytes + used.spill_load_bytes, used.stack_bytes,
                     used.shared_bytes);
}

}  // namespace

std::map<std::string, std::optional<Resources>> cached_kernels() {
  std::map<std::string, std::optional<Resources>> found;
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
  std::string text = for_people ? to_text(explanation, format == "all") : "";
  PlanFacts facts;
  if (explanation.plan) {
    const auto cached = cached_kernels();
    for (const Stage& stage : explanation.plan->stages) {
      const auto known = cached.find(print(stage.key));
      PlanFacts::OfStage& of_stage = facts.stages.emplace_back();
      if (known == cached.end() || !known->second) continue;
      of_stage.resources = resources_json(*known->second);
      if (for_people) text += line_of(stage.key.algorithm.kernel, *known->second);
    }
  }
  return for_people ? text : to_json(explanation, facts);
}

}  // namespace regard
