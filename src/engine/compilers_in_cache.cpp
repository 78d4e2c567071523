#include "engine/compilers_in_cache.h"

#include <span>

#include "base/json.h"

namespace regard {
namespace {
Digest key_of(const std::string& question) {
  return sha256("compiler 1\n" + question);
}
}  // namespace

std::optional<std::string> CompilersInCache::recall(const std::string& question) {
  const std::optional<CacheEntry> entry = cache_.find(key_of(question));
  if (!entry || entry->payload.empty()) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(entry->payload.data()), entry->payload.size());
}

void CompilersInCache::remember(const std::string& question, const std::string& identity) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(identity));
  JsonWriter manifest;
  manifest.object([&] {
    manifest.member("compiler", identity);
    manifest.member("file", question);
  });
  // With a folder that cannot be written to, the compiler is asked again each time.
  (void)cache_.write(key_of(question),
                     {manifest.take(), {bytes.begin(), bytes.end()}, {}, {.compiled = true, .signer = {}}});
}

}  // namespace regard
