#include "engine/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/forever.h"
#include "base/fork_local.h"
#include "base/interruption.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/settings.h"
#include "compile/toolchain.h"
#include "engine/built_in.h"
#include "engine/compilers_in_cache.h"
#include "engine/counters.h"
#include "engine/machine.h"
#include "engine/manifest.h"
#include "kernel/render.h"

namespace regard {
namespace {

using Clock = std::chrono::steady_clock;
using Loaded = Result<std::shared_ptr<const LoadedKernel>>;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What the steps of getting a kernel took, for the log.
class Steps {
 public:
  explicit Steps(Clock::time_point start) : last_(start) {}
  void done(const char* name) {
    if (!logged_) return;
    const Clock::time_point now = Clock::now();
    text_ += fmt::format(" {} {:.3f}", name, std::chrono::duration<double, std::milli>(now - last_).count());
    last_ = now;
  }
  const std::string& text() const { return text_; }

 private:
  bool logged_ = log_enabled("cache");
  Clock::time_point last_;
  std::string text_;
};

/// Changes whenever the meaning of a cache entry does.
constexpr int entry_schema = 1;

Digest identity_of(const KernelKey& key, const Rendered& rendered, std::string_view compiler) {
  return sha256(fmt::format("{}\n{}\n{}\n{}\n{}", entry_schema, key.target, compiler,
                            fmt::join(rendered.options, " "), rendered.source));
}

std::string manifest_of(const KernelKey& key, const Rendered& rendered, const Toolchain& toolchain,
                        const Compiled& compiled) {
  JsonWriter json;
  json.object([&] {
    json.member("compile_seconds", compiled.seconds);
    json.member("compiler", toolchain.identity());
    json.member("kernel", print(key));
    json.member("options", rendered.options);
    if (compiled.resources) json.member("resources", [&] { json.raw(resources_json(*compiled.resources)); });
    json.member("symbol", rendered.symbol);
    json.member("target", key.target);
  });
  return json.take();
}

/// GPUs get theirs later, each when it is first used there.
Result<Code> load(const Target& target, const std::vector<std::byte>& binary, const std::string& symbol) {
  if (target.kind == TargetKind::cuda) {
    if (Status status = cuda::check_binary(binary, symbol); !status) return tl::unexpected(status.error());
    return Code{nullptr, nullptr, std::make_shared<const cuda::Kernel>(binary, symbol)};
  }
  const Result<std::shared_ptr<cpu::Module>> module = cpu::load(binary, symbol);
  if (!module) return tl::unexpected(module.error());
  return Code{(*module)->function(), *module, nullptr};
}

/// Compiles and loads it: what does not load is not worth keeping.
Result<CacheEntry> compile(const KernelKey& key, const Target& target, const Rendered& rendered,
                           Toolchain& toolchain, std::optional<Code>& code) {
  const Result<Compiled> compiled = toolchain.compile({rendered.symbol, rendered.source, rendered.options});
  if (!compiled) return tl::unexpected(compiled.error());
  log_line("compile", fmt::format("{} in {:.2f} s", print(key), compiled->seconds));
  if (compiled->resources) {
    if (Status status = fits(*compiled->resources, key, target); !status)
      return tl::unexpected(status.error());
  }
  Result<Code> loaded = load(target, compiled->binary, rendered.symbol);
  if (!loaded) return tl::unexpected(loaded.error());
  code = std::move(*loaded);
  CacheEntry entry{manifest_of(key, rendered, toolchain, *compiled), compiled->binary};
  if (!compiled->doubt.empty()) {
    entry.unfit = fmt::format("a kernel is not kept: the compiler {} {}", toolchain.name(), compiled->doubt);
  }
  return entry;
}

/// For a machine that compiles nothing: entries that a compiler made elsewhere, or here before. Manifests
/// only propose compilers; the key, with this library's own source in it, decides.
std::vector<Digest> of_any_compiler(Cache& cache, const KernelKey& key, const Rendered& rendered) {
  const std::string kernel = print(key);
  std::vector<Digest> digests;
  for (const CacheEntryInfo& entry : cache.list()) {
    const Manifest manifest(entry.manifest);
    if (manifest.kernel == kernel) digests.push_back(identity_of(key, rendered, manifest.compiler));
  }
  return digests;
}

/// A cached or newly compiled kernel, loaded.
Loaded fetch(const KernelKey& key, const Target& target, Clock::time_point start) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const Result<Rendered> rendered = render(key);
  if (!rendered) return tl::unexpected(rendered.error());
  Steps steps(start);
  steps.done("source");
  const Result<Cache*> cache = process_cache();
  if (!cache) return tl::unexpected(cache.error());
  CompilersInCache memory(**cache);
  const Result<Toolchain*> toolchain = toolchain_for(target, current->cache ? &memory : nullptr);
  steps.done("compiler");

  std::string not_kept;
  const auto loaded = [&](const Code& code, Tier tier, const CacheEntry& entry) -> Loaded {
    return std::make_shared<const LoadedKernel>(LoadedKernel{print(key), code, tier, seconds_since(start),
                                                             Manifest(entry.manifest).resources, not_kept});
  };
  const auto load_entry = [&](const CacheEntry& entry) -> Loaded {
    steps.done("entry");
    const Result<Code> code = load(target, entry.payload, rendered->symbol);
    if (!code) return tl::unexpected(code.error());
    steps.done("load");
    log_line("cache", fmt::format("{} in ms:{}", print(key), steps.text()));
    return loaded(*code, Tier::cache, entry);
  };

  /// The first entry that loads, of this compiler (`own`) or any; else a refusal.
  const auto without_compiling = [&](const std::optional<Digest>& own, const std::string& why) -> Loaded {
    std::shared_ptr<const LoadedKernel> found;
    std::string problem;
    bool scarce = false;
    const auto loads = [&](const Digest& digest) {
      const std::optional<CacheEntry> entry = (*cache)->find(digest, &scarce);
      if (!entry) return false;
      const Loaded cached = load_entry(*entry);
      if (cached) found = *cached;
      scarce = scarce || is_scarce(cached);
      if (!cached)
        problem = fmt::format("; entry {} there does not load: {}", digest.hex(), cached.error().message);
      return cached.has_value();
    };
    if (current->cache &&
        ((own && loads(*own)) || std::ranges::any_of(of_any_compiler(**cache, key, *rendered), loads)))
      return found;
    if (current->cache && is_scarce((*cache)->readable())) scarce = true;
    return fail(
        scarce ? ErrorKind::no_memory : ErrorKind::no_kernel,
        fmt::format("kernel '{}' is not built into the library, not in the cache ({}{}), and {}", print(key),
                    current->cache ? printable((*cache)->directory()) : "switched off", problem, why));
  };

  if (!toolchain) {
    Loaded found = without_compiling(std::nullopt, "cannot be compiled: " + toolchain.error().message);
    if (!found && is_scarce(toolchain)) found.error().kind = toolchain.error().kind;
    return found;
  }
  const Digest digest = identity_of(key, *rendered, (*toolchain)->identity());
  steps.done("key");
  std::optional<Code> code;  // of what was compiled here
  const auto make = [&] { return compile(key, target, *rendered, **toolchain, code); };
  if (!current->jit) {
    return without_compiling(
        digest, fmt::format("REGARD_JIT=off forbids compiling it; run it once with REGARD_JIT=on, or build "
                            "the library with '{}' among the variants of profiles/default.toml",
                            print(key.signature)));
  }
  if (current->cache) {
    const Result<CacheEntry> entry = (*cache)->get(digest, make, nullptr, &not_kept);
    if (!entry) return tl::unexpected(entry.error());
    if (code) return loaded(*code, Tier::compile, *entry);
    Loaded cached = load_entry(*entry);
    if (cached) return cached;
    log_line("cache", fmt::format("entry {} does not load and is compiled again: {}", digest.hex(),
                                  cached.error().message));
  }
  const Result<CacheEntry> made = make();
  if (!made) return tl::unexpected(made.error());
  const Status kept = current->cache ? (*cache)->publish(digest, *made) : refused(cache_is_off);
  if (!kept) not_kept = kept.error().message;
  return loaded(*code, Tier::compile, *made);
}

Loaded resolve_once(const KernelKey& key) {
  const Clock::time_point start = Clock::now();
  const Result<const Target*> target = find_target(key.target);
  if (!target) return tl::unexpected(target.error());
  if ((*target)->kind == TargetKind::cpu) {  // a GPU's kernels can be made ready on a machine without one
    if (Status status = runnable(**target); !status) return tl::unexpected(status.error());
  }
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const std::string text = print(key);
  if (const cpu::KernelFunction function = current->built_in ? find_built_in(text) : nullptr) {
    ++counters().built_in;
    return std::make_shared<const LoadedKernel>(
        LoadedKernel{text, {function, nullptr, nullptr}, Tier::built_in, seconds_since(start), {}, {}});
  }
  Loaded loaded = fetch(key, **target, start);
  if (!loaded) {
    ++counters().failed;
  } else {
    ++((*loaded)->tier == Tier::cache ? counters().cached : counters().compiled);
  }
  return loaded;
}

/// What was found, or not, and when to look again for what was not to be had for lack of memory, files or
/// disk: at the next call, and then ever less often, as a compile that fails takes a while.
struct Slot {
  std::timed_mutex mutex;
  std::optional<Loaded> answer;
  int scarce_answers = 0;
  Clock::time_point again;

  const Loaded& look(const KernelKey& key) {
    const bool keeps = answer && (!is_scarce(*answer) || Clock::now() < again);
    if (keeps) return *answer;
    const Clock::time_point start = Clock::now();
    answer = resolve_once(key);
    constexpr int longest = 100;  // times what looking took
    if (is_interrupted(*answer))
      again = start;
    else if (is_scarce(*answer))
      again = Clock::now() + std::min(scarce_answers++, longest) * (Clock::now() - start);
    return *answer;
  }
};

struct Slots {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Slot>, std::less<>> of_key;
};
ForkLocal<Slots>& process_slots = *new ForkLocal<Slots>;

}  // namespace

std::string_view word(Tier tier) {
  switch (tier) {
    case Tier::built_in:
      return "built-in";
    case Tier::cache:
      return "cache";
    case Tier::compile:
      return "compile";
  }
  return "?";
}

Counters& counters() {
  static constinit Counters all;
  return all;
}

Result<Cache*> process_cache() {
  const auto& cache = forever_unless_scarce<[]() -> Result<std::unique_ptr<Cache>> {
    const Result<Settings>& current = settings();
    if (!current) return tl::unexpected(current.error());
    return std::make_unique<Cache>(default_cache_directory(), current->cache_bytes,
                                   static_cast<double>(current->lock_seconds));
  }>();
  if (!cache) return tl::unexpected(cache.error());
  return cache->get();
}

Result<std::shared_ptr<const LoadedKernel>> resolve(const KernelKey& key) {
  Slots& slots = process_slots.get();
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(slots.mutex);
    std::shared_ptr<Slot>& entry = slots.of_key[print(key)];
    if (!entry) entry = std::make_shared<Slot>();
    slot = entry;
  }
  std::unique_lock lock(slot->mutex, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50)))
    if (interrupted()) return interruption();
  return slot->look(key);
}

}  // namespace regard
