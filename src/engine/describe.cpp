#include "engine/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/json.h"
#include "base/nearest.h"
#include "base/settings.h"
#include "base/temporary.h"
#include "base/text.h"
#include "compile/manifest.h"
#include "compile/toolchain.h"
#include "engine/built_in.h"
#include "engine/bundles.h"
#include "engine/cached_kernels.h"
#include "engine/counters.h"
#include "engine/machine.h"
#include "plan/profile.h"
#include "plan/recipe.h"
#include "plan/stage.h"

namespace regard {
namespace {

void write_target(JsonWriter& json, const Target& target) {
  const Status can_run = runnable(target);
  json.object([&] {
    json.member("doc", target.doc);
    json.member("kernels", has_kernels(target));
    json.member("kind", word(target.kind));
    json.member("name", target.name);
    json.member("runs_here", can_run.has_value());
    if (!can_run) json.member("why_not", can_run.error().message);
  });
}

Result<Toolchain*> host_compiler() {
  const Result<const Target*> generic = find_target("cpu-generic");
  if (!generic) return tl::unexpected(generic.error());
  return toolchain_for(**generic);
}

void write(JsonWriter& json, const Result<Toolchain*>& compiler) {
  json.object([&] {
    if (!compiler) return json.member("error", compiler.error().message);
    json.member("identity", (*compiler)->identity());
    json.member("name", (*compiler)->name());
  });
}

void write_gpus(JsonWriter& json) {
  json.list([&] {
    for (const gpu::Backend* backend : gpu::backends()) {
      const Result<std::vector<gpu::Device>>& own = gpu::devices(*backend);
      if (!own) continue;
      for (const gpu::Device& device : *own) {
        json.object([&] {
          json.member("chip", device.chip);
          json.member("device", device.ordinal);
          json.member("kind", gpu::kind_of(*backend));
          json.member("multiprocessors", device.multiprocessors);
          json.member("name", device.name);
        });
      }
    }
  });
}

/// Why there are no GPUs of a kind.
void write_missing_gpus(JsonWriter& json) {
  json.object([&] {
    for (const gpu::Backend* backend : gpu::backends()) {
      const Result<std::vector<gpu::Device>>& own = gpu::devices(*backend);
      if (!own) json.member(gpu::kind_of(*backend), own.error().message);
    }
  });
}

void write_settings(JsonWriter& json, const Settings& current) {
  const std::vector<std::string> values = setting_values(current);
  json.list([&] {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const SettingInfo& info = setting_table()[i];
      json.object([&] {
        json.member("default", info.default_text);
        json.member("doc", info.doc);
        json.member("name", info.name);
        json.member("type", info.type);
        json.member("value", values[i]);
      });
    }
  });
}

/// What kernels encounter: the setting takes precedence over the folder.
std::string state_of(const CacheStat& stat) {
  const Result<Settings>& current = settings();
  if (!current || current->cache) return stat.state;
  return cache_is_off;
}

void write(JsonWriter& json, const CacheStat& stat) {
  json.object([&] {
    json.member("bound_bytes", stat.bound_bytes);
    json.member("bytes", stat.bytes);
    json.member("directory", stat.directory);
    json.member("entries", stat.entries);
    json.member("litter", stat.leftovers);
    json.member("state", state_of(stat));
  });
}

void write(JsonWriter& json, const CacheEntryInfo& entry) {
  json.object([&] {
    json.member("bytes", entry.bytes);
    if (!entry.manifest.empty()) json.member("compiled_here", entry.origin.compiled);
    json.member("key", entry.key);
    // null: `problem` or `unread` says why
    json.member("manifest", [&] { json.raw(entry.manifest.empty() ? "null" : entry.manifest); });
    if (!entry.problem.empty()) json.member("problem", entry.problem);
    if (!entry.unread.empty()) json.member("unread", entry.unread);
    if (entry.origin.signer) json.member("signed_by", entry.origin.signer->hex());
    if (!entry.trusted) json.member("trusted", false);
    json.member("used", entry.used_unix_seconds);
  });
}

void write_counters(JsonWriter& json) {
  std::map<std::string_view, std::int64_t> by_name;
#define REGARD_COUNTER(name, doc) by_name[#name] = counters().name.load();
  REGARD_COUNTERS(REGARD_COUNTER)
#undef REGARD_COUNTER
  json.object([&] {
    for (const auto& [name, count] : by_name) json.member(name, count);
  });
}

void write(JsonWriter& json, const OpenBundle& open) {
  json.object([&] {
    if (open.bundle == nullptr) {
      json.member("error", open.problem);
    } else {
      const BundleAbout& about = open.bundle->about();
      json.member("kernels", open.bundle->kernels().size());
      if (const auto signer = open.bundle->signer()) json.member("signed_by", signer->hex());
      json.member("title", about.title);
      json.member("undeclared", about.undeclared);
      json.member("version", about.version);
    }
    json.member("path", open.path);
  });
}

std::string text_of(const CacheStat& stat) {
  JsonWriter json;
  write(json, stat);
  return json.take();
}

}  // namespace

std::string describe(const PreparedPlan& prepared) {
  const PreparedPlan::Ready* ready = prepared.answering();
  PlanFacts facts;
  facts.workspace_bytes = prepared.workspace_bytes();
  if (ready == nullptr) return to_json(prepared.best(), facts);
  for (const auto& kernel : ready->kernels) {
    facts.stages.push_back({word(kernel->tier), kernel->missed,
                            kernel->resources ? resources_json(*kernel->resources) : "", kernel->seconds});
  }
  facts.fallback_reason = ready->fallback_reason;
  return to_json(*ready->plan, facts);
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
  const Result<std::shared_ptr<const Bundles>> all_bundles = bundles();
  if (!all_bundles) return tl::unexpected(all_bundles.error());
  const Result<Cache*> cache = process_cache();
  const Result<Toolchain*> compiler = host_compiler();
  if (is_interrupted(compiler)) return tl::unexpected(compiler.error());

  JsonWriter json;
  json.object([&] {
    json.member("built_in_kernels", built_in_kernels().size());
    json.member("bundles", [&] {
      json.list([&] {
        if ((*all_bundles)->first) write(json, *(*all_bundles)->first);
        if ((*all_bundles)->embedded) write(json, *(*all_bundles)->embedded);
        for (const OpenBundle& bundle : (*all_bundles)->others) write(json, bundle);
      });
    });
    json.member("cache", [&] {
      if (cache) return write(json, (*cache)->stat());
      json.object([&] { json.member("state", cache.error().message); });
    });
    json.member("compiler", [&] { write(json, compiler); });
    json.member("counters", [&] { write_counters(json); });
    json.member("gpus", [&] { write_gpus(json); });
    json.member("gpus_missing", [&] { write_missing_gpus(json); });
    json.member("machine", [&] {
      json.object([&] {
        json.member("cores", cpu::usable_cores());
        json.member("cpu", cpu_model());
        json.member("threads", *threads);
      });
    });
    json.member("profiles", [&] {
      json.list([&] {
        for (const std::string_view name : profile_names()) json.value(name);
      });
    });
    json.member("settings", [&] { write_settings(json, *current); });
    json.member("target", (*best)->name);
    json.member("targets", [&] {
      json.list([&] {
        for (const Target& target : *all) write_target(json, target);
      });
    });
    json.member("version", REGARD_VERSION);
  });
  return json.take();
}

namespace {

/// What list_kernels lists.
struct Listed {
  std::string kernel;
  std::string_view tier;
};

using Names = std::set<std::string, std::less<>>;

void add_names(Names& names, const OpenBundle& open) {
  if (open.bundle == nullptr) return;
  for (const BundleKernel& kernel : open.bundle->kernels()) names.emplace(kernel.name);
}

/// The names of all kernels in bundles; whether one is of this library's source shows only when it is
/// requested.
Names bundled_kernels(const Bundles& all) {
  Names names;
  if (all.first) add_names(names, *all.first);
  for (const OpenBundle& open : all.others) add_names(names, open);
  return names;
}

/// The names of all kernels in the library itself.
Names own_kernels(const Settings& current, const Bundles& all) {
  Names names;
  if (current.built_in)
    for (const BuiltInKernel& kernel : built_in_kernels()) names.emplace(kernel.key);
  if (current.built_in && all.embedded) add_names(names, *all.embedded);
  return names;
}

/// The kernels of a profile on a target, or on each CPU target.
Result<std::vector<Listed>> kernels_of_profile(
    std::string_view profile_name, std::string_view target_name,
    const std::function<std::string_view(const std::string&)>& tier) {
  const Result<const Profile*> profile = find_profile(profile_name);
  if (!profile) return tl::unexpected(profile.error());
  const Result<std::vector<Target>>& all = targets();
  if (!all) return tl::unexpected(all.error());
  std::vector<Listed> listed;
  for (const Target& target : *all) {
    if (!target_name.empty() && target.name != target_name) continue;
    if (target.on_gpu() && target_name.empty()) continue;  // only on request
    const Result<std::vector<KernelKey>> keys = keys_of_profile(**profile, target);
    if (!keys) return tl::unexpected(keys.error());
    for (const KernelKey& key : *keys) {
      std::string text = print(key);
      const std::string_view from = tier(text);
      listed.push_back({std::move(text), from});
    }
  }
  return listed;
}

}  // namespace

Result<std::string> list_kernels(std::string_view target_name, std::string_view profile_name) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  if (!target_name.empty()) {
    if (const Result<const Target*> known = find_target(target_name); !known)
      return tl::unexpected(known.error());
  }
  const Result<std::shared_ptr<const Bundles>> all = bundles();
  if (!all) return tl::unexpected(all.error());
  const Names built_in = own_kernels(*current, **all), in_bundles = bundled_kernels(**all);
  const auto in_cache = cached_kernels();
  const auto target_of = [](std::string_view kernel) { return kernel.substr(0, kernel.find(' ')); };
  std::vector<Listed> listed;
  if (profile_name.empty()) {
    const auto requested = [&](std::string_view key) {
      return target_name.empty() || target_of(key) == target_name;
    };
    for (const std::string& key : built_in) {
      if (requested(key)) listed.push_back({key, word(Tier::built_in)});
    }
    for (const std::string& key : in_bundles) {
      if (requested(key)) listed.push_back({key, word(Tier::bundle)});
    }
    for (const auto& [key, resources] : in_cache) {
      if (requested(key)) listed.push_back({key, word(Tier::cache)});
    }
  } else {
    Result<std::vector<Listed>> of_profile =
        kernels_of_profile(profile_name, target_name, [&](const std::string& kernel) {
          return word(built_in.contains(kernel)     ? Tier::built_in
                      : in_bundles.contains(kernel) ? Tier::bundle
                      : in_cache.contains(kernel)   ? Tier::cache
                                                    : Tier::compile);
        });
    if (!of_profile) return tl::unexpected(of_profile.error());
    listed = std::move(*of_profile);
  }
  JsonWriter json;
  json.list([&] {
    for (const Listed& row : listed) {
      json.object([&] {
        json.member("kernel", row.kernel);
        const auto known = in_cache.find(row.kernel);
        if (known != in_cache.end() && known->second)
          json.member("resources", [&] { json.raw(resources_json(*known->second)); });
        json.member("target", target_of(row.kernel));
        json.member("tier", row.tier);
      });
    }
  });
  return json.take();
}

namespace {

/// A key that a user wrote may lack a number that all tiles of its kernel have.
Status has_numbers(const KernelKey& key) {
  const Result<const Target*> target = find_target(key.target);
  if (!target) return tl::unexpected(target.error());
  std::vector<const Algorithm*> tiles;
  for (const Target::Tile& tile : (*target)->tiles)
    if (tile.algorithm.kernel == key.algorithm.kernel) tiles.push_back(&tile.algorithm);
  if (tiles.empty()) return {};
  for (const auto& [name, field] : algorithm_fields()) {
    const auto has = [field = field](const Algorithm* algorithm) { return algorithm->*field > 0; };
    if (key.algorithm.*field != 0 || !std::ranges::all_of(tiles, has)) continue;
    return invalid(fmt::format("kernel '{}' lacks {}; a tile of {} has {}={}", print(key), name, key.target,
                               name, tiles.front()->*field));
  }
  return {};
}

}  // namespace

Result<std::string> prepare_kernel(std::string_view text) {
  const Result<KernelKey> key = parse_kernel_key(text);
  if (!key) return tl::unexpected(key.error());
  if (Status status = has_numbers(*key); !status) return tl::unexpected(status.error());
  const Result<std::shared_ptr<const LoadedKernel>> kernel = resolve(*key);
  if (!kernel) return tl::unexpected(kernel.error());
  JsonWriter json;
  json.object([&] {
    json.member("kernel", (*kernel)->key);
    if (!(*kernel)->not_kept.empty()) json.member("not_kept", (*kernel)->not_kept);
    if (const auto& used = (*kernel)->resources)
      json.member("resources", [&] { json.raw(resources_json(*used)); });
    json.member("seconds", (*kernel)->seconds);
    json.member("tier", word((*kernel)->tier));
  });
  return json.take();
}

Result<std::string> cache_verb(std::string_view verb) {
  const Result<Cache*> cache = process_cache();
  if (!cache) return tl::unexpected(cache.error());
  // A folder that cannot be read now is not an empty one. `stat` reports it itself.
  if (const Status folder = (*cache)->readable(); verb != "stat" && is_scarce(folder))
    return tl::unexpected(folder.error());
  if (verb == "list" || verb == "verify") {
    JsonWriter json;
    json.list([&] {
      for (const CacheEntryInfo& entry : verb == "list" ? (*cache)->list() : (*cache)->verify())
        write(json, entry);
    });
    return json.take();
  }
  if (verb == "stat") return text_of((*cache)->stat());
  if (verb == "gc" || verb == "clean") remove_abandoned_temporaries();
  if (verb == "gc") return text_of((*cache)->gc());
  if (verb == "clean") return text_of((*cache)->clean());
  static constexpr std::string_view verbs[] = {"list", "stat", "verify", "gc", "clean"};
  return invalid(fmt::format("unknown cache verb {}{}", in_quotes(verb), suggestion(verb, verbs)));
}

}  // namespace regard
