#include "engine/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/settings.h"
#include "base/temporary.h"
#include "compile/toolchain.h"
#include "engine/built_in.h"
#include "engine/cached_kernels.h"
#include "engine/counters.h"
#include "engine/machine.h"
#include "plan/profile.h"
#include "plan/recipe.h"
#include "plan/stage.h"

namespace regard {
namespace {

using nlohmann::json;

json describe_target(const Target& target) {
  const Status can_run = runnable(target);
  json row = {{"name", target.name},
              {"doc", target.doc},
              {"kind", word(target.kind)},
              {"kernels", has_kernels(target)},
              {"runs_here", can_run.has_value()}};
  if (!can_run) row["why_not"] = can_run.error().message;
  return row;
}

json describe_compiler() {
  const Result<const Target*> generic = find_target("cpu-generic");
  if (!generic) return {{"error", generic.error().message}};
  const Result<Toolchain*> host = toolchain_for(**generic);
  if (!host) return {{"error", host.error().message}};
  return {{"name", (*host)->name()}, {"identity", (*host)->identity()}};
}

json describe_gpus() {
  json rows = json::array();
  const Result<std::vector<cuda::Device>>& all = cuda::devices();
  if (!all) return rows;
  for (const cuda::Device& device : *all) {
    rows.push_back({{"device", device.ordinal},
                    {"name", device.name},
                    {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
                    {"multiprocessors", device.multiprocessors}});
  }
  return rows;
}

json describe_settings(const Settings& current) {
  json rows = json::array();
  const std::vector<std::string> values = setting_values(current);
  for (const SettingInfo& info : setting_table()) {
    rows.push_back({{"name", info.name},
                    {"value", values[rows.size()]},
                    {"default", info.default_text},
                    {"type", info.type},
                    {"doc", info.doc}});
  }
  return rows;
}

/// What kernels meet: the setting comes before the folder.
std::string state_of(const CacheStat& stat) {
  const Result<Settings>& current = settings();
  if (!current || current->cache) return stat.state;
  return cache_is_off;
}

json describe(const CacheStat& stat) {
  return {{"directory", stat.directory}, {"state", state_of(stat)},         {"entries", stat.entries},
          {"bytes", stat.bytes},         {"bound_bytes", stat.bound_bytes}, {"litter", stat.litter}};
}

json describe(const CacheEntryInfo& entry) {
  json row = {{"key", entry.key}, {"bytes", entry.bytes}, {"used", entry.used_unix_seconds}};
  if (!entry.problem.empty()) row["problem"] = entry.problem;
  row["manifest"] =
      entry.manifest.empty() ? json() : json::parse(entry.manifest);  // null: `problem` says why
  return row;
}

json describe_counters() {
  json row = json::object();
#define REGARD_COUNTER(name, doc) row[#name] = counters().name.load();
  REGARD_COUNTERS(REGARD_COUNTER)
#undef REGARD_COUNTER
  return row;
}

}  // namespace

std::string describe(const PreparedPlan& prepared) {
  const PreparedPlan::Ready* ready = prepared.ready_if_prepared();
  json plan = json::parse(to_json(ready != nullptr ? *ready->plan : prepared.best()));
  plan["workspace_bytes"] = prepared.workspace_bytes();
  if (ready != nullptr) {
    for (std::size_t i = 0; i < ready->kernels.size(); ++i) {
      plan["stages"][i]["tier"] = word(ready->kernels[i]->tier);
      plan["stages"][i]["seconds"] = ready->kernels[i]->seconds;
      const std::string& resources = ready->kernels[i]->resources;
      if (!resources.empty()) plan["stages"][i]["resources"] = json::parse(resources);
    }
    if (!ready->fallback_reason.empty()) plan["fallback_reason"] = ready->fallback_reason;
  }
  return json_text(plan);
}

Result<std::string> describe_machine() {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const Result<std::vector<Target>>& all = targets();
  if (!all) return tl::unexpected(all.error());
  const Result<const Target*> best = best_target();
  if (!best) return tl::unexpected(best.error());
  const Result<int> threads = thread_count(0);
  if (!threads) return tl::unexpected(threads.error());

  json info;
  info["version"] = REGARD_VERSION;
  info["machine"] = {{"cpu", cpu_model()}, {"cores", cpu::usable_cores()}, {"threads", *threads}};
  info["target"] = (*best)->name;
  for (const Target& target : *all) info["targets"].push_back(describe_target(target));
  info["gpus"] = describe_gpus();
  info["compiler"] = describe_compiler();
  info["settings"] = describe_settings(*current);
  const Result<Cache*> cache = process_cache();
  info["cache"] = cache ? describe((*cache)->stat()) : json{{"state", cache.error().message}};
  info["built_in_kernels"] = built_in_kernels().size();
  info["counters"] = describe_counters();
  return json_text(info);
}

Result<std::string> list_kernels(std::string_view target_name, std::string_view profile_name) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const Result<std::vector<Target>>& all = targets();
  if (!all) return tl::unexpected(all.error());
  if (!target_name.empty()) {
    if (const Result<const Target*> known = find_target(target_name); !known)
      return tl::unexpected(known.error());
  }
  const std::map<std::string, std::string> in_cache = cached_kernels();
  json rows = json::array();
  const auto add = [&](const std::string& key, std::string_view tier) {
    json& row = rows.emplace_back();
    row = {{"kernel", key}, {"target", key.substr(0, key.find(' '))}, {"tier", tier}};
    const auto known = in_cache.find(key);
    if (known != in_cache.end() && !known->second.empty()) row["resources"] = json::parse(known->second);
  };
  const auto wanted = [&](std::string_view key) {
    return target_name.empty() || key.substr(0, key.find(' ')) == target_name;
  };

  if (profile_name.empty()) {
    for (const BuiltInKernel& kernel : built_in_kernels()) {
      if (current->built_in && wanted(kernel.key)) add(std::string(kernel.key), word(Tier::built_in));
    }
    for (const auto& [key, resources] : in_cache) {
      if (wanted(key)) add(key, word(Tier::cache));
    }
    return json_text(rows);
  }
  const Result<const Profile*> profile = find_profile(profile_name);
  if (!profile) return tl::unexpected(profile.error());
  for (const Target& target : *all) {
    if (!target_name.empty() && target.name != target_name) continue;
    if (target.kind != TargetKind::cpu && target_name.empty())
      continue;  // only by name: they have no kernels yet
    const Result<std::vector<KernelKey>> keys = kernels_of(**profile, target);
    if (!keys) return tl::unexpected(keys.error());
    for (const KernelKey& key : *keys) {
      const std::string text = print(key);
      const bool built_in = current->built_in && find_built_in(text) != nullptr;
      add(text, word(built_in ? Tier::built_in : in_cache.contains(text) ? Tier::cache : Tier::compile));
    }
  }
  return json_text(rows);
}

namespace {

/// A key that somebody wrote may lack a number that all tiles of its kernel have.
Status has_numbers(const KernelKey& key) {
  const Result<const Target*> target = find_target(key.target);
  if (!target) return tl::unexpected(target.error());
  std::vector<const Target::Tile*> tiles;
  for (const Target::Tile& tile : (*target)->tiles)
    if (tile.kernel == key.algorithm.kernel && tile.pipeline == key.algorithm.pipeline)
      tiles.push_back(&tile);
  const auto needed = [&](std::string_view name) {
    return !tiles.empty() &&
           std::ranges::all_of(tiles, [&](const Target::Tile* tile) { return value_of(*tile, name) > 0; });
  };
#define REGARD_NEED(name, default_value, doc)                                                            \
  if (key.algorithm.name == 0 && needed(#name))                                                          \
    return invalid(fmt::format("kernel '{}' lacks " #name "; a tile of {} has " #name "={}", print(key), \
                               key.target, value_of(*tiles.front(), #name)));
  REGARD_ALGORITHM_FIELDS(REGARD_NEED)
#undef REGARD_NEED
  return {};
}

}  // namespace

Result<std::string> prepare_kernel(std::string_view text) {
  const Result<KernelKey> key = parse_kernel_key(text);
  if (!key) return tl::unexpected(key.error());
  if (Status status = has_numbers(*key); !status) return tl::unexpected(status.error());
  const Result<std::shared_ptr<const LoadedKernel>> kernel = resolve(*key);
  if (!kernel) return tl::unexpected(kernel.error());
  json row = {{"kernel", (*kernel)->key}, {"tier", word((*kernel)->tier)}, {"seconds", (*kernel)->seconds}};
  if (!(*kernel)->resources.empty()) row["resources"] = json::parse((*kernel)->resources);
  if (!(*kernel)->not_kept.empty()) row["not_kept"] = (*kernel)->not_kept;
  return json_text(row);
}

Result<std::string> cache_verb(std::string_view verb) {
  const Result<Cache*> cache = process_cache();
  if (!cache) return tl::unexpected(cache.error());
  if (verb == "list" || verb == "verify") {
    json rows = json::array();
    for (const CacheEntryInfo& entry : verb == "list" ? (*cache)->list() : (*cache)->verify()) {
      rows.push_back(describe(entry));
    }
    return json_text(rows);
  }
  if (verb == "stat") return json_text(describe((*cache)->stat()));
  if (verb == "gc" || verb == "clean") remove_abandoned_temporaries();
  if (verb == "gc") return json_text(describe((*cache)->gc()));
  if (verb == "clean") return json_text(describe((*cache)->clean()));
  static constexpr std::string_view verbs[] = {"list", "stat", "verify", "gc", "clean"};
  return invalid(fmt::format("unknown cache verb {}{}", in_quotes(verb), suggestion(verb, verbs)));
}

}  // namespace regard
