#include "cache/entry.h"

#include <algorithm>
#include <cstring>

#include "base/json_reader.h"

namespace regard::cache {
namespace {

// All integers as this machine has them: an entry is compiled for this machine anyway.
struct Header {
  char magic[8];
  std::uint32_t schema;
  std::uint32_t zero;
  std::array<std::uint8_t, 32> key;
  std::uint64_t manifest_bytes;
  std::uint64_t payload_bytes;
};
static_assert(sizeof(Header) == 64);

constexpr char magic[8] = {'R', 'E', 'G', 'A', 'R', 'D', '\x1a', '\n'};

// Copies the bytes to `place` and returns the place behind them.
std::byte* put(std::byte* place, std::span<const std::byte> bytes) {
  return std::copy(bytes.begin(), bytes.end(), place);
}

// Checks all that can be checked without the rest of the file.
Result<Header> decode_header(const Digest& key, std::span<const std::byte> file) {
  Header header;
  if (file.size() < sizeof header) return invalid("it is shorter than an entry's header");
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, magic, sizeof magic) != 0) return invalid("it is not a cache entry");
  if (header.schema != schema) {
    return invalid("it has schema " + std::to_string(header.schema) + ", not " + std::to_string(schema));
  }
  if (header.zero != 0) return invalid("its header is damaged");
  if (header.key != key.bytes) return invalid("it holds another key than its name says");
  return header;
}

// Lists hand manifests on as JSON, so what is none never gets that far.
Result<std::string> checked_manifest(std::span<const std::byte> bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with('{')) return invalid("its manifest is not a JSON object");
  const Status read = read_json(text, "its manifest", [](const JsonEvent&) { return Status(); });
  return read.map([&] { return std::move(text); });
}

}  // namespace

std::vector<std::byte> encode(const Digest& key, const CacheEntry& entry) {
  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.schema = schema;
  header.key = key.bytes;
  header.manifest_bytes = entry.manifest.size();
  header.payload_bytes = entry.payload.size();
  const std::size_t checked = sizeof header + entry.manifest.size() + entry.payload.size();
  std::vector<std::byte> file(checked + sizeof(Digest));
  std::byte* place = put(file.data(), std::as_bytes(std::span(&header, 1)));
  place = put(place, std::as_bytes(std::span(entry.manifest)));
  place = put(place, entry.payload);
  const Digest sum = sha256(std::span(file).first(checked));
  put(place, std::as_bytes(std::span(sum.bytes)));
  return file;
}

Result<CacheEntry> decode(const Digest& key, std::span<const std::byte> file) {
  const Result<Header> header = decode_header(key, file);
  if (!header) return tl::unexpected(header.error());
  const std::uint64_t fixed = sizeof(Header) + sizeof(Digest);
  const std::uint64_t body = file.size() < fixed ? 0 : file.size() - fixed;
  if (file.size() < fixed || header->manifest_bytes > body ||
      header->payload_bytes != body - header->manifest_bytes) {
    return invalid("its length is not what its header says");
  }
  const std::span<const std::byte> checked = file.first(file.size() - sizeof(Digest));
  const Digest sum = sha256(checked);
  if (std::memcmp(sum.bytes.data(), file.data() + checked.size(), sizeof sum.bytes) != 0) {
    return invalid("its checksum is wrong");
  }
  const auto manifest_bytes = static_cast<std::size_t>(header->manifest_bytes);
  Result<std::string> manifest = checked_manifest(file.subspan(sizeof(Header), manifest_bytes));
  if (!manifest) return tl::unexpected(manifest.error());
  const std::span<const std::byte> payload = checked.subspan(sizeof(Header) + manifest_bytes);
  return CacheEntry{std::move(*manifest), {payload.begin(), payload.end()}};
}

Result<std::string> decode_manifest(const Digest& key, std::span<const std::byte> file) {
  const Result<Header> header = decode_header(key, file);
  if (!header) return tl::unexpected(header.error());
  const std::span<const std::byte> rest = file.subspan(sizeof(Header));
  if (header->manifest_bytes > rest.size()) return invalid("its length is not what its header says");
  return checked_manifest(rest.first(static_cast<std::size_t>(header->manifest_bytes)));
}

std::optional<Digest> parse_digest(std::string_view hex) {
  Digest digest;
  if (hex.size() != 2 * digest.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const bool digit = hex[i] >= '0' && hex[i] <= '9';
    if (!digit && !(hex[i] >= 'a' && hex[i] <= 'f')) return std::nullopt;
    const int value = digit ? hex[i] - '0' : hex[i] - 'a' + 10;
    digest.bytes[i / 2] = static_cast<std::uint8_t>(digest.bytes[i / 2] * 16 + value);
  }
  return digest;
}

}  // namespace regard::cache
