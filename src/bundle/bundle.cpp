#include "bundle/bundle.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "bundle/compressed.h"
#include "bundle/index.h"

namespace regard {
namespace {

/// Reads what follows the index.
Result<std::optional<bundle::Signature>> read_signature(const bundle::Bytes& bytes, std::uint64_t offset) {
  const std::uint64_t left = bytes.count() - offset;
  if (left == 0) return std::nullopt;
  // One byte too many shows the error as well as a million do.
  std::vector<std::byte> read(std::min<std::uint64_t>(left, bundle::signature_bytes + 1));
  if (const Status done = bytes.read_at(offset, read); !done) return tl::unexpected(done.error());
  return bundle::decode_signature(read);
}

}  // namespace

Bundle::Bundle(bundle::Location location, bundle::Index index, std::span<const std::byte> header,
               std::optional<bundle::Signature> signature)
    : location_(std::move(location)),
      about_(std::move(index.about)),
      index_(std::move(index.bytes)),
      kernels_(std::move(index.kernels)),
      header_(header.begin(), header.end()),
      signature_(signature) {}

Result<std::shared_ptr<const Bundle>> Bundle::open(const std::string& path,
                                                   std::span<const PublicKey> trusted) {
  Result<RegularFile> file = RegularFile::open(path, Links::followed);
  if (!file) return tl::unexpected(file.error());
  bundle::Location location{
      path, real_path(path), bundle::state_of(*file), bundle::access_of(file->status()), {}};
  return open(std::move(location), bundle::Bytes(std::move(*file)), trusted);
}

Result<std::shared_ptr<const Bundle>> Bundle::in_memory(std::string path, std::span<const std::byte> bytes,
                                                        std::span<const PublicKey> trusted) {
  return open({std::move(path), {}, {}, {}, bytes}, bundle::Bytes(bytes), trusted);
}

Result<std::shared_ptr<const Bundle>> Bundle::open(bundle::Location location, const bundle::Bytes& bytes,
                                                   std::span<const PublicKey> trusted) {
  std::array<std::byte, sizeof(bundle::Header)> start;
  const auto there = static_cast<std::size_t>(std::min<std::uint64_t>(start.size(), bytes.count()));
  const std::span<std::byte> beginning = std::span(start).first(there);
  if (const Status read = bytes.read_at(0, beginning); !read) return tl::unexpected(read.error());
  const Result<bundle::Header> header = bundle::decode_header(beginning, bytes.count());
  if (!header) return tl::unexpected(header.error());

  const auto signature = read_signature(bytes, header->index_offset + header->index_bytes);
  if (!signature) return tl::unexpected(signature.error());
  // Where no keys are trusted, a wrong signature does no harm, and callers that ask for the signer get the
  // error.
  const Status right = trusted.empty() ? Status() : bundle::check_signer(*signature, beginning, trusted);
  if (!right) return tl::unexpected(right.error());

  std::vector<std::byte> index_bytes(static_cast<std::size_t>(header->index_bytes));
  if (const Status read = bytes.read_at(header->index_offset, index_bytes); !read)
    return tl::unexpected(read.error());
  Result<bundle::Index> index = bundle::decode_index(*header, std::move(index_bytes));
  if (!index) return tl::unexpected(index.error());
  return std::shared_ptr<const Bundle>(
      new Bundle(std::move(location), std::move(*index), beginning, *signature));
}

bool Bundle::same_as(const Bundle& other) const {
  return !location_.file.empty() && !other.location_.file.empty() &&
         location_.state == other.location_.state && header_ == other.header_;
}

std::span<const BundleKernel> Bundle::named(std::string_view name) const {
  const auto [first, last] = std::ranges::equal_range(kernels_, name, {}, &BundleKernel::name);
  return {first, last};
}

Result<std::vector<std::byte>> Bundle::read_compressed(const BundleKernel& kernel) const {
  bool changed = false;
  const Result<bundle::Bytes> bytes = bundle::open(location_, changed);
  if (!bytes) return tl::unexpected(bytes.error());
  std::vector<std::byte> compressed(static_cast<std::size_t>(kernel.compressed_bytes));
  const Status read = bytes->read_at(kernel.offset, compressed);
  if (read && sha256(compressed) == kernel.checksum) return compressed;
  if (is_scarce(read)) return tl::unexpected(read.error());
  const std::string name = in_quotes(kernel.name);
  if (changed)
    return invalid("its file was changed after it was opened, and has its kernel " + name + " no more");
  if (!read) return tl::unexpected(read.error());
  return invalid("its kernel " + name + " is damaged: the checksum is wrong");
}

Result<CacheEntry> Bundle::read(const BundleKernel& kernel) const {
  const Result<std::vector<std::byte>> compressed = read_compressed(kernel);
  if (!compressed) return tl::unexpected(compressed.error());
  Result<CacheEntry> entry = bundle::decompress(*compressed, kernel.bytes);
  if (!entry)
    return fail(entry.error().kind,
                "its kernel " + in_quotes(kernel.name) + " is damaged: " + entry.error().message);
  return entry;
}

Result<std::optional<PublicKey>> Bundle::checked_signer() const {
  if (!signature_) return std::nullopt;
  return bundle::check(*signature_, header_).map([&] { return std::optional(signature_->signer); });
}

}  // namespace regard
