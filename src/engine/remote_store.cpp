#include "engine/remote_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/process_lifetime.h"
#include "base/text.h"
#include "bundle/signed_entry.h"
#include "bundle/signing.h"
#include "bundle/trusted_keys.h"
#include "remote/http.h"

namespace regard {
namespace {

struct GivenUp {
  std::atomic<bool> value{false};
};
ForkLocal<GivenUp>& given_up = *new ForkLocal<GivenUp>;

struct Store {
  std::string url;  ///< without a trailing slash
  std::chrono::seconds limit;
  std::vector<PublicKey> trusted;

  std::string url_of(const Digest& key) const { return url + "/" + key.hex(); }
};

constexpr std::int64_t most_seconds = 3600;

Result<Store> store_of(const Settings& current) {
  if (Status fits = check_remote(current); !fits) return tl::unexpected(fits.error());
  Result<std::vector<PublicKey>> trusted = trusted_keys(current);
  if (!trusted) return tl::unexpected(trusted.error());
  if (current.remote_write && !current.signing_key.empty()) {
    const Status key = check_key_file(current.signing_key);
    if (!key && !is_scarce(key)) return invalid("REGARD_SIGNING_KEY: " + key.error().message);
  }
  std::string url = current.remote.text;
  while (url.ends_with('/')) url.pop_back();
  return Store{std::move(url), std::chrono::seconds(std::min(current.remote_seconds, most_seconds)),
               std::move(*trusted)};
}

void give_up(const Store& store, const std::string& why) {
  if (given_up.get().value.exchange(true)) return;
  warn_once(fmt::format("the remote store {} is not used any more: {}", without_secrets(store.url), why));
}

Result<CacheEntry> get(const Store& store, const Digest& key, bool& none) {
  const auto body = remote::get(store.url_of(key), largest_signed_entry_bytes, store.limit);
  if (!body) return tl::unexpected(body.error());
  none = !body->has_value();
  if (none) return invalid("");
  Result<CacheEntry> entry = decode_signed(key, **body, store.trusted);
  if (entry || is_scarce(entry)) return entry;
  return invalid(fmt::format("what it has as {} cannot be used: {}", key.hex(), entry.error().message));
}

}  // namespace

Status check_remote(const Settings& current) {
  if (current.remote.empty()) return {};
  if (const Status url = remote::check_url(current.remote.text); !url)
    return invalid("REGARD_REMOTE: " + url.error().message);
  if (current.remote_seconds == 0)
    return invalid(
        "REGARD_REMOTE_SECONDS=0 leaves no time for an answer; use 1 or more, or no REGARD_REMOTE");
  if (current.remote_write && !current.trusted_keys.empty() && current.signing_key.empty()) {
    return invalid(
        "REGARD_REMOTE_WRITE=on would put kernels into the remote store that REGARD_TRUSTED_KEYS refuses, as "
        "they are not signed; set REGARD_SIGNING_KEY");
  }
  return {};
}

Result<std::optional<CacheEntry>> fetch(Search& search, const Digest& key) {
  if (search.settings.remote.empty()) return std::nullopt;
  const Result<Store> store = store_of(search.settings);
  if (!store) return tl::unexpected(store.error());
  const std::string name = without_secrets(store->url);
  if (given_up.get().value) {
    search.missed(fmt::format("not asked for in the remote store {}, which failed before", name));
    return std::nullopt;
  }
  bool none = false;
  Result<CacheEntry> entry = get(*store, key, none);
  search.spent_on("remote");
  if (is_interrupted(entry)) return tl::unexpected(entry.error());
  if (entry) return std::move(*entry);
  if (none) {
    search.missed(fmt::format("not in the remote store {}", name));
    return std::nullopt;
  }
  search.missed(fmt::format("not available from the remote store {}: {}", name, entry.error().message),
                is_scarce(entry));
  if (!is_scarce(entry)) give_up(*store, entry.error().message);
  return std::nullopt;
}

void offer(const Settings& current, const Digest& key, const CacheEntry& entry) {
  if (current.remote.empty() || !current.remote_write || given_up.get().value) return;
  const bool fits =
      entry.manifest.size() <= largest_manifest_bytes && entry.payload.size() <= largest_payload_bytes;
  if (!entry.uncacheable.empty() || !fits) return;
  const Result<Store> store = store_of(current);
  if (!store) return;
  const auto body = encode_signed(key, entry, current.signing_key);
  if (!body) {  // the next fetch() says more about a key that has become invalid
    if (!is_scarce(body)) warn_once("the remote store does not get a kernel: " + body.error().message);
    return;
  }
  const Status put = remote::put(store->url_of(key), *body, store->limit);
  if (!put && !is_scarce(put)) give_up(*store, put.error().message);
}

}  // namespace regard
