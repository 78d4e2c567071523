#include "cache/entry.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/json.h"
#include "base/text.h"

namespace regard::cache {
namespace {

// All integers in this machine's byte order: an entry is compiled for this machine anyway.
struct Header {
  char magic[8];
  std::uint32_t schema;
  std::uint32_t origin;
  std::array<std::uint8_t, 32> key;
  std::uint64_t manifest_bytes;
  std::uint64_t payload_bytes;
};
static_assert(sizeof(Header) == 64);

/// The header's word for it. Entries from before it was recorded have the first value.
enum WordOfOrigin : std::uint32_t { not_known = 0, compiled_here = 1, signed_elsewhere = 2 };

constexpr char magic[8] = {'R', 'E', 'G', 'A', 'R', 'D', '\x1a', '\n'};

// Copies the bytes to `out` and returns the position after them.
std::byte* put(std::byte* out, std::span<const std::byte> bytes) {
  return std::copy(bytes.begin(), bytes.end(), out);
}

constexpr std::uint64_t fixed_bytes = sizeof(Header) + sizeof(Digest);

/// The signer's key follows the header.
std::size_t signer_bytes(const Header& header) {
  return header.origin == signed_elsewhere ? sizeof(PublicKey) : 0;
}

std::size_t manifest_offset(const Header& header) {
  return sizeof header + signer_bytes(header);
}

Origin origin_of(const Header& header, std::span<const std::byte> signer) {
  if (header.origin != signed_elsewhere) return {header.origin == compiled_here, {}};
  PublicKey key;
  std::memcpy(key.bytes.data(), signer.data(), key.bytes.size());
  return {false, key};
}

// Checks everything that can be checked without the rest of the file, whose size is `file_bytes`.
Result<Header> decode_header(const Digest& key, std::span<const std::byte> beginning,
                             std::uint64_t file_bytes) {
  Header header;
  if (beginning.size() < sizeof header) return invalid("it is shorter than an entry's header");
  std::memcpy(&header, beginning.data(), sizeof header);
  if (std::memcmp(header.magic, magic, sizeof magic) != 0) return invalid("it is not a cache entry");
  if (header.schema != schema) {
    return invalid("it has schema " + std::to_string(header.schema) + ", not " + std::to_string(schema));
  }
  if (header.origin > signed_elsewhere) return invalid("its header is damaged");
  if (header.key != key.bytes) return invalid("it holds another key than its name says");
  if (header.manifest_bytes > largest_manifest_bytes || header.payload_bytes > largest_payload_bytes)
    return invalid("it is larger than an entry may be");
  if (file_bytes != fixed_bytes + signer_bytes(header) + header.manifest_bytes + header.payload_bytes)
    return invalid("its length is not what its header says");
  return header;
}

// The same for a file; `beginning` takes the header's bytes.
Result<Header> read_header(const Digest& key, const RegularFile& file, std::span<std::byte> beginning) {
  if (file.bytes() < beginning.size()) return invalid("it is shorter than an entry's header");
  if (Status read = file.read(beginning); !read) return tl::unexpected(read.error());
  return decode_header(key, beginning, file.bytes());
}

}  // namespace

const std::int64_t largest_entry_bytes = static_cast<std::int64_t>(
    fixed_bytes + sizeof(PublicKey) + largest_manifest_bytes + largest_payload_bytes);

std::vector<std::byte> encode(const Digest& key, const CacheEntry& entry) {
  return encode(key, entry, entry.origin);
}

std::vector<std::byte> encode(const Digest& key, const CacheEntry& entry, const Origin& origin) {
  Header header{};
  std::memcpy(header.magic, magic, sizeof magic);
  header.schema = schema;
  header.origin = origin.compiled ? compiled_here : origin.signer ? signed_elsewhere : not_known;
  header.key = key.bytes;
  header.manifest_bytes = entry.manifest.size();
  header.payload_bytes = entry.payload.size();
  const std::size_t checked = manifest_offset(header) + entry.manifest.size() + entry.payload.size();
  std::vector<std::byte> file(checked + sizeof(Digest));
  std::byte* out = put(file.data(), std::as_bytes(std::span(&header, 1)));
  if (header.origin == signed_elsewhere) out = put(out, std::as_bytes(std::span(origin.signer->bytes)));
  out = put(out, std::as_bytes(std::span(entry.manifest)));
  out = put(out, entry.payload);
  const Digest sum = sha256(std::span(file).first(checked));
  put(out, std::as_bytes(std::span(sum.bytes)));
  return file;
}

Result<CacheEntry> decode(const Digest& key, std::span<const std::byte> file) {
  const Result<Header> header = decode_header(key, file, file.size());
  if (!header) return tl::unexpected(header.error());
  const std::span<const std::byte> checked = file.first(file.size() - sizeof(Digest));
  const Digest sum = sha256(checked);
  if (std::memcmp(sum.bytes.data(), file.data() + checked.size(), sizeof sum.bytes) != 0) {
    return invalid("its checksum is wrong");
  }
  const auto manifest_bytes = static_cast<std::size_t>(header->manifest_bytes);
  const std::size_t offset = manifest_offset(*header);
  Result<std::string> manifest = checked_manifest(file.subspan(offset, manifest_bytes));
  if (!manifest) return tl::unexpected(manifest.error());
  const std::span<const std::byte> payload = checked.subspan(offset + manifest_bytes);
  const Origin origin = origin_of(*header, file.subspan(sizeof(Header)));
  return CacheEntry{std::move(*manifest), {payload.begin(), payload.end()}, {}, origin};
}

Result<CacheEntry> read_entry(const Digest& key, const RegularFile& file) {
  std::vector<std::byte> bytes(sizeof(Header));
  const Result<Header> header = read_header(key, file, bytes);
  if (!header) return tl::unexpected(header.error());
  bytes.resize(static_cast<std::size_t>(file.bytes()));
  if (Status read = file.read(std::span(bytes).subspan(sizeof(Header))); !read)
    return tl::unexpected(read.error());
  return decode(key, bytes);
}

Result<Beginning> read_beginning(const Digest& key, const RegularFile& file) {
  std::vector<std::byte> bytes(sizeof(Header));
  const Result<Header> header = read_header(key, file, bytes);
  if (!header) return tl::unexpected(header.error());
  bytes.resize(signer_bytes(*header) + static_cast<std::size_t>(header->manifest_bytes));
  if (Status read = file.read(bytes); !read) return tl::unexpected(read.error());
  Result<std::string> manifest = checked_manifest(std::span(bytes).subspan(signer_bytes(*header)));
  if (!manifest) return tl::unexpected(manifest.error());
  return Beginning{origin_of(*header, bytes), std::move(*manifest)};
}

Result<std::string> checked_manifest(std::span<const std::byte> bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with('{')) return invalid("its manifest is not a JSON object");
  // Where a name occurs twice, readers differ in which value they take.
  std::vector<std::set<std::string, std::less<>>> names;  // of the objects around a value
  std::size_t values = 0;
  const Status read = read_json(text, "its manifest", [&](const JsonEvent& json) -> Status {
    const auto depth = static_cast<std::size_t>(json.depth);
    names.resize(depth + 1);
    if (json.kind == JsonEvent::Kind::end) return {};
    if (json.depth > 0) ++values;
    if (!json.key.empty() && !names[depth].emplace(json.key).second)
      return invalid("its manifest has " + in_quotes(json.key) + " twice");
    return {};
  });
  if (read && values == 0) return invalid("its manifest is empty");
  return read.map([&] { return std::move(text); });
}

}  // namespace regard::cache
