#include "engine/cache_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/printable.h"
#include "base/settings.h"
#include "bundle/about.h"
#include "bundle/writer.h"
#include "cache/entry.h"
#include "compile/kernel_entry.h"
#include "compile/manifest.h"
#include "engine/bundles.h"
#include "engine/resolve.h"

namespace regard {
namespace {

struct LeftOut {
  std::string kernel, why;
  bool damaged = false;
};

std::string report(std::size_t kernels, const std::vector<LeftOut>& left_out) {
  JsonWriter json;
  json.object([&] {
    json.member("kernels", kernels);
    json.member("left_out", [&] {
      json.list([&] {
        for (const LeftOut& one : left_out) {
          json.object([&] {
            json.member("damaged", one.damaged);
            json.member("kernel", one.kernel);
            json.member("why", one.why);
          });
        }
      });
    });
  });
  return json.take();
}

/// The source of the kernel that a manifest tells of, if `identity` is what its compiler makes of this
/// library's. Error: why not.
Result<Digest> source_of(const Manifest& manifest, const Digest& identity) {
  const Result<KernelKey> key = parse_kernel_key(manifest.kernel);
  if (!key) return tl::unexpected(key.error());
  const Result<Rendered> rendered = render(*key);
  if (!rendered) return tl::unexpected(rendered.error());
  if (identity_of(*key, *rendered, manifest.compiler) != identity)
    return invalid("it was compiled from other sources than this library's");
  return source_of(*key, *rendered);
}

Result<Cache*> cache_in_use() {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  if (!current->cache) return refused(cache_is_off);
  return process_cache();
}

/// Those of the cache, the last used first. An error where it cannot be read: a bundle of what is left would
/// be taken for all of it.
Result<std::vector<CacheEntryInfo>> entries_of(Cache& cache) {
  if (const Status readable = cache.readable(); is_scarce(readable)) return tl::unexpected(readable.error());
  std::vector<CacheEntryInfo> entries = cache.list();
  const auto unread =
      std::ranges::find_if(entries, [](const CacheEntryInfo& info) { return !info.unread.empty(); });
  if (unread != entries.end())
    return fail(ErrorKind::no_memory,
                fmt::format("the entry {} of the cache: {}", unread->key, unread->unread));
  std::ranges::stable_sort(entries, std::ranges::greater(), &CacheEntryInfo::used_unix_seconds);
  return entries;
}

tl::unexpected<Error> nothing_to_export(const Cache& cache, const std::vector<LeftOut>& left_out) {
  std::string sentence = fmt::format("the cache {} has no kernel to export", printable(cache.directory()));
  if (left_out.empty())
    return refused(sentence + "; run the program that is to have kernels, or `regard prebuild`");
  return refused(sentence + fmt::format(", as {} {} left out; the first one: {}", left_out.size(),
                                        left_out.size() == 1 ? "is" : "are", left_out.front().why));
}

}  // namespace

Result<std::string> export_cache(const std::string& bundle) {
  const Result<Cache*> cache = cache_in_use();
  if (!cache) return tl::unexpected(cache.error());
  const Result<std::vector<CacheEntryInfo>> entries = entries_of(**cache);
  if (!entries) return tl::unexpected(entries.error());
  std::vector<BundleInput> inputs;
  std::vector<LeftOut> left_out;
  std::set<std::pair<std::string, Digest>> taken;
  for (const CacheEntryInfo& info : *entries) {
    if (!info.problem.empty()) {
      left_out.push_back({info.key, info.problem, true});
      continue;
    }
    const Manifest manifest(info.manifest);
    if (manifest.kernel.empty()) continue;  // what a compiler said of itself
    const Digest identity = *cache::parse_digest(info.key);
    const Result<Digest> source = source_of(manifest, identity);
    if (!source) {
      left_out.push_back({manifest.kernel, source.error().message});
      continue;
    }
    bool scarce = false;
    std::optional<CacheEntry> entry = (*cache)->find(identity, &scarce);
    if (!entry && scarce) {
      return fail(
          ErrorKind::no_memory,
          fmt::format("the entry {} of the cache cannot be read for lack of memory or files", info.key));
    }
    if (!entry) {
      left_out.push_back({manifest.kernel, "it is damaged, or was removed meanwhile", true});
    } else if (!taken.emplace(manifest.kernel, *source).second) {
      left_out.push_back({manifest.kernel, "another compiler's is in the bundle"});
    } else {
      inputs.push_back({manifest.kernel, *source, identity, std::move(*entry)});
    }
  }
  const std::size_t count = inputs.size();
  if (count == 0) return nothing_to_export(**cache, left_out);
  if (Status status =
          write_bundle(bundle, {"", REGARD_VERSION, std::string(word(Undeclared::jit))}, std::move(inputs));
      !status)
    return tl::unexpected(status.error());
  return report(count, left_out);
}

Result<std::string> import_cache(const std::string& path) {
  const Result<Cache*> cache = cache_in_use();
  if (!cache) return tl::unexpected(cache.error());
  const Result<std::shared_ptr<const Bundle>> bundle = open_trusted(path);
  if (!bundle) return tl::unexpected(bundle.error());
  std::size_t count = 0;
  std::vector<LeftOut> left_out;
  for (const BundleKernel& kernel : (*bundle)->kernels()) {
    const Result<CacheEntry> entry = (*bundle)->read(kernel);
    if (is_scarce(entry))
      return fail(entry.error().kind,
                  fmt::format("the bundle {}: {}", printable(path), entry.error().message));
    if (!entry) {
      left_out.push_back({std::string(kernel.name), entry.error().message, true});
      continue;
    }
    const Result<Digest> source = source_of(Manifest(entry->manifest), kernel.identity);
    if (!source) {
      left_out.push_back({std::string(kernel.name), source.error().message});
      continue;
    }
    if (Status status = (*cache)->write(kernel.identity, *entry); !status)
      return tl::unexpected(status.error());
    ++count;
  }
  return report(count, left_out);
}

}  // namespace regard
