#include <algorithm>
#include <vector>

#include "cache/entry.h"
#include "fuzz/fuzz.h"

using namespace regard;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Digest key = sha256(std::string_view("fuzz"));
  const std::span<const std::byte> file = fuzz::bytes(data, size);
  if (const Result<CacheEntry> entry = cache::decode(key, file))
    fuzz::demand(std::ranges::equal(cache::encode(key, *entry), file), "one entry has one form");

  // A fuzzer cannot guess a checksum, so the lengths before it are tested with a correct one.
  std::vector<std::byte> sealed(file.begin(), file.end());
  const Digest sum = sha256(file);
  const auto tail = std::as_bytes(std::span(sum.bytes));
  sealed.insert(sealed.end(), tail.begin(), tail.end());
  if (const Result<CacheEntry> entry = cache::decode(key, sealed))
    fuzz::demand(cache::encode(key, *entry) == sealed, "one entry has one form");
  return 0;
}
