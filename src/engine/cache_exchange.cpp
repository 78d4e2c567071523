#include "engine/cache_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/settings.h"
#include "base/text.h"
#include "bundle/about.h"
#include "bundle/writer.h"
#include "cache/entry.h"
#include "compile/kernel_entry.h"
#include "compile/manifest.h"
#include "engine/bundles.h"
#include "engine/resolve.h"
#include "engine/search.h"

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

/// A kernel whose source this library has.
struct Known {
  KernelKey key;
  Rendered rendered;
};

/// The kernel that a manifest describes, if `identity` is that of its compiler's binary of this library's
/// source. Error: why not.
Result<Known> known_kernel(const Manifest& manifest, const Digest& identity) {
  const Result<KernelKey> key = parse_kernel_key(manifest.kernel);
  if (!key) return tl::unexpected(key.error());
  Result<Rendered> rendered = render(*key);
  if (!rendered) return tl::unexpected(rendered.error());
  if (identity_of(*key, *rendered, manifest.compiler) != identity)
    return invalid("it was compiled from other sources than this library's");
  return Known{*key, std::move(*rendered)};
}

/// Whether a process could use it.
Status loads(const Known& kernel, const CacheEntry& entry) {
  const Result<const Target*> target = find_target(kernel.key.target);
  if (!target) return tl::unexpected(target.error());
  const Search search(kernel.key, **target, *settings(), Search::Goal::code);
  return search.load(entry.payload, kernel.rendered.symbol).map([](const Code&) {});
}

/// Whether the cache has the kernel already: an entry that loads, and whose origin is at least as
/// trustworthy.
Result<bool> has_as_good(Cache& cache, const Known& kernel, const Digest& identity, const Origin& origin) {
  Cache::Missed missed;
  const std::optional<CacheEntry> there = cache.find(identity, &missed);
  if (missed.scarce)
    return fail(ErrorKind::no_memory, "the cache cannot be read for lack of memory or files");
  if (!there) return false;
  if (origin.signer && there->origin == Origin()) return false;
  const Status loaded = loads(kernel, *there);
  if (is_scarce(loaded)) return tl::unexpected(loaded.error());
  return loaded.has_value();
}

Result<Cache*> cache_in_use() {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  if (!current->cache) return refused(cache_is_off);
  return process_cache();
}

/// The entries of the cache, most recently used first. An error where it cannot be read, as a bundle of the
/// rest would be mistaken for all of it.
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
    if (manifest.kernel.empty()) continue;  // what a compiler reported about itself
    const Digest identity = *parse_digest(info.key);
    if (!info.trusted) {
      left_out.push_back({manifest.kernel, untrusted});
      continue;
    }
    const Result<Known> kernel = known_kernel(manifest, identity);
    if (!kernel) {
      left_out.push_back({manifest.kernel, kernel.error().message});
      continue;
    }
    const Digest source = source_of(kernel->key, kernel->rendered);
    Cache::Missed missed;
    std::optional<CacheEntry> entry = (*cache)->find(identity, &missed);
    if (!entry && missed.scarce) {
      return fail(
          ErrorKind::no_memory,
          fmt::format("the entry {} of the cache cannot be read for lack of memory or files", info.key));
    }
    if (!entry) {
      left_out.push_back({manifest.kernel, missed.why.empty() ? "it was removed meanwhile" : missed.why,
                          !missed.why.empty()});
    } else if (!taken.emplace(manifest.kernel, source).second) {
      left_out.push_back({manifest.kernel, "another compiler's is in the bundle"});
    } else {
      inputs.push_back({manifest.kernel, source, identity, std::move(*entry)});
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
  const std::optional<PublicKey> signer = (*bundle)->signer();
  std::size_t count = 0;
  std::vector<LeftOut> left_out;
  for (const BundleKernel& kernel : (*bundle)->kernels()) {
    const auto cannot = [&](const Error& error) {
      return fail(error.kind, fmt::format("the bundle {}: {}", printable(path), error.message));
    };
    Result<CacheEntry> entry = (*bundle)->read(kernel);
    if (is_scarce(entry)) return cannot(entry.error());
    if (!entry) {
      left_out.push_back({std::string(kernel.name), entry.error().message, true});
      continue;
    }
    entry->origin.signer = signer;
    const Result<Known> known = known_kernel(Manifest(entry->manifest), kernel.identity);
    const Status usable = known ? loads(*known, *entry) : tl::unexpected(known.error());
    if (is_scarce(usable)) return cannot(usable.error());
    if (!usable) {
      left_out.push_back({std::string(kernel.name), usable.error().message});
      continue;
    }
    ++count;
    const Result<bool> there = has_as_good(**cache, *known, kernel.identity, entry->origin);
    if (!there) return cannot(there.error());
    if (*there) continue;
    if (Status status = (*cache)->write(kernel.identity, *entry); !status)
      return tl::unexpected(status.error());
  }
  return report(count, left_out);
}

}  // namespace regard
