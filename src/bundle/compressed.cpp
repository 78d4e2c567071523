#include "bundle/compressed.h"

#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cstring>
#include <span>
#include <string>

#include "cache/entry.h"

namespace regard::bundle {
namespace {

// Higher levels give 1% less in up to three times the time; this one takes some 10 ms for a kernel of 60 KB.
constexpr int level = 15;

constexpr std::size_t manifest_offset = sizeof(std::uint64_t);

tl::unexpected<Error> zstd_error(const char* what, std::size_t code) {
  const bool no_memory = ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation;
  return fail(no_memory ? ErrorKind::no_memory : ErrorKind::invalid,
              fmt::format("{}: {}", what, ZSTD_getErrorName(code)));
}

}  // namespace

const std::uint64_t largest_compressed_bytes = ZSTD_compressBound(largest_entry_bytes);

Result<Compressed> compress(const CacheEntry& entry) {
  if (!entry.uncacheable.empty()) return invalid(entry.uncacheable);
  if (entry.manifest.size() > largest_manifest_bytes || entry.payload.size() > largest_payload_bytes)
    return invalid(fmt::format(
        "it has {} bytes with a manifest of {}; a bundle takes kernels of up to {} and {} bytes",
        entry.payload.size(), entry.manifest.size(), largest_payload_bytes, largest_manifest_bytes));
  const auto manifest = std::as_bytes(std::span(entry.manifest));
  if (const auto right = cache::checked_manifest(manifest); !right) return tl::unexpected(right.error());
  const std::uint64_t manifest_bytes = manifest.size();
  std::vector<std::byte> row(manifest_offset);
  std::memcpy(row.data(), &manifest_bytes, sizeof manifest_bytes);
  row.insert(row.end(), manifest.begin(), manifest.end());
  row.insert(row.end(), entry.payload.begin(), entry.payload.end());

  Compressed compressed{std::vector<std::byte>(ZSTD_compressBound(row.size())), row.size()};
  const std::size_t size =
      ZSTD_compress(compressed.bytes.data(), compressed.bytes.size(), row.data(), row.size(), level);
  if (ZSTD_isError(size) != 0) return zstd_error("it cannot be packed", size);
  compressed.bytes.resize(size);
  compressed.bytes.shrink_to_fit();
  return compressed;
}

Result<CacheEntry> decompress(std::span<const std::byte> compressed, std::uint64_t entry_bytes) {
  const std::size_t frame = ZSTD_findFrameCompressedSize(compressed.data(), compressed.size());
  if (ZSTD_isError(frame) != 0) return zstd_error("it cannot be unpacked", frame);
  if (frame != compressed.size()) return invalid("it has more than one frame");
  if (ZSTD_getFrameContentSize(compressed.data(), compressed.size()) != entry_bytes)
    return invalid("its frame says another size than the index");
  if (entry_bytes < least_entry_bytes || entry_bytes > largest_entry_bytes)
    return invalid("it is larger or smaller than an entry can be");
  std::vector<std::byte> row(static_cast<std::size_t>(entry_bytes));
  const std::size_t size = ZSTD_decompress(row.data(), row.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(size) != 0) return zstd_error("it cannot be unpacked", size);
  if (size != row.size()) return invalid("it has fewer bytes than the index says");

  std::uint64_t manifest_bytes;
  std::memcpy(&manifest_bytes, row.data(), sizeof manifest_bytes);
  const auto rest = std::span<const std::byte>(row).subspan(manifest_offset);
  if (manifest_bytes > rest.size()) return invalid("its manifest reaches beyond its end");
  if (manifest_bytes > largest_manifest_bytes || rest.size() - manifest_bytes > largest_payload_bytes)
    return invalid("it is larger than an entry may be");
  Result<std::string> manifest =
      cache::checked_manifest(rest.first(static_cast<std::size_t>(manifest_bytes)));
  if (!manifest) return tl::unexpected(manifest.error());
  const auto payload = rest.subspan(static_cast<std::size_t>(manifest_bytes));
  return CacheEntry{std::move(*manifest), {payload.begin(), payload.end()}};
}

}  // namespace regard::bundle
