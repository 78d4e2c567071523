#include "bundle/bundle.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "bundle/index.h"
#include "fuzz/fuzz.h"

using namespace regard;

namespace {

void read_all(std::span<const std::byte> file) {
  const auto bundle = Bundle::in_memory("fuzz", file);
  if (!bundle) return;
  for (const BundleKernel& kernel : (*bundle)->kernels()) {
    const auto named = (*bundle)->named(kernel.name);
    fuzz::demand(std::ranges::any_of(named, [&](const auto& one) { return one.source == kernel.source; }),
                 "a kernel is found by its name");
    if (const Result<CacheEntry> entry = (*bundle)->read(kernel))
      fuzz::demand(sizeof(std::uint64_t) + entry->manifest.size() + entry->payload.size() == kernel.bytes,
                   "an entry has the size that the index says");
  }
}

/// A fuzzer cannot guess checksums, so those of the index and of its kernels are corrected wherever the bytes
/// have room for them.
std::vector<std::byte> sealed(std::span<const std::byte> file) {
  std::vector<std::byte> bytes(file.begin(), file.end());
  bundle::Header header;
  if (bytes.size() < sizeof header) return bytes;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.index_offset > bytes.size() || header.index_bytes > bytes.size() - header.index_offset)
    return bytes;
  const std::span<std::byte> index = std::span(bytes).subspan(header.index_offset, header.index_bytes);
  // A record: 32-byte source, identity and checksum, then offset, packed bytes, bytes, length of the name.
  constexpr std::size_t first = 16, record = 128, checksum = 64, place = 96;
  for (std::size_t at = first; at + record <= index.size(); at += record) {
    std::uint64_t offset, size;
    std::memcpy(&offset, index.data() + at + place, sizeof offset);
    std::memcpy(&size, index.data() + at + place + sizeof offset, sizeof size);
    if (offset > header.index_offset || size > header.index_offset - offset) break;
    const Digest sum = sha256(std::span<const std::byte>(bytes).subspan(offset, size));
    std::memcpy(index.data() + at + checksum, &sum, sizeof sum);
  }
  header.index_digest = sha256(index);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file = fuzz::bytes(data, size);
  read_all(file);
  read_all(sealed(file));
  return 0;
}
