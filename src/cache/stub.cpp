#include "cache/cache.h"
namespace regard {
Cache::Cache(std::string d, std::int64_t b, double l) : directory_(d), bound_bytes_(b), lock_seconds_(l) {
  (void)bound_bytes_;
  (void)lock_seconds_;
}
std::string Cache::state() const {
  return "ok";
}
std::optional<CacheEntry> Cache::find(const Digest&) {
  return {};
}
bool Cache::publish(const Digest&, const CacheEntry&) {
  return false;
}
Result<CacheEntry> Cache::get(const Digest&, const std::function<Result<CacheEntry>()>& make, bool* f) {
  *f = false;
  return make();
}
std::vector<CacheEntryInfo> Cache::list() {
  return {};
}
CacheStat Cache::stat() {
  return {};
}
std::vector<CacheEntryInfo> Cache::verify() {
  return {};
}
CacheStat Cache::gc() {
  return {};
}
CacheStat Cache::clean() {
  return {};
}
std::string default_cache_directory() {
  return "/tmp/x";
}
}  // namespace regard
