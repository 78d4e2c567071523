#include "bundle/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/atomic_file.h"
#include "base/interruption.h"
#include "base/text.h"
#include "bundle/compressed.h"
#include "bundle/index.h"

namespace regard {
namespace {

tl::unexpected<Error> cannot_have(const std::string& path, std::string_view name, const Error& why) {
  return fail(why.kind, fmt::format("cannot write {}: of its kernel {}: {}", printable(path), in_quotes(name),
                                    why.message));
}

BundleKernel named(const BundleInput& input) {
  return {.name = input.name, .source = input.source, .identity = input.identity};
}

bool are_the_same(const BundleInput& a, const BundleInput& b) {
  return a.identity == b.identity && a.entry.manifest == b.entry.manifest &&
         a.entry.payload == b.entry.payload;
}

}  // namespace

Status bundle::write_in_order(const std::string& path, const BundleAbout& about,
                              std::vector<BundleKernel> kernels, const GiveCompressed& give) {
  Result<AtomicFile> file = AtomicFile::make(path);
  if (!file) return tl::unexpected(file.error());
  // Space for the header, which is known last.
  std::uint64_t offset = sizeof(Header);
  if (const Status written = file->write(std::vector<std::byte>(sizeof(Header))); !written) return written;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    BundleKernel& kernel = kernels[i];
    if (interrupted()) return fail(ErrorKind::interrupted, "interrupted while a bundle was being written");
    if (kernel.name.empty() || kernel.name.size() > longest_name)
      return cannot_have(path, kernel.name,
                         Error{ErrorKind::invalid, fmt::format("names have 1 to {} bytes", longest_name)});
    const Result<Compressed> compressed = give(i);
    if (!compressed) return tl::unexpected(compressed.error());
    kernel.offset = offset;
    kernel.compressed_bytes = compressed->bytes.size();
    kernel.bytes = compressed->entry_bytes;
    kernel.checksum = sha256(compressed->bytes);
    offset += kernel.compressed_bytes;
    if (const Status written = file->write(compressed->bytes); !written) return written;
  }
  const Result<std::vector<std::byte>> index = encode_index(about, kernels);
  if (!index)
    return fail(index.error().kind, "cannot write " + printable(path) + ": " + index.error().message);
  if (Status written = file->write(*index); !written) return written;
  const Header header = header_of(offset, *index);
  if (Status written = file->write_first(std::as_bytes(std::span(&header, 1))); !written) return written;
  if (Status synced = file->sync(); !synced) return synced;
  return file->publish();
}

Status write_bundle(const std::string& path, const BundleAbout& about, std::vector<BundleInput>&& inputs) {
  std::ranges::stable_sort(inputs, bundle::stands_before, named);
  std::vector<BundleKernel> kernels;
  std::vector<BundleInput*> entries;
  for (BundleInput& input : inputs) {
    const BundleKernel kernel = named(input);
    const bool again = !kernels.empty() && !bundle::stands_before(kernels.back(), kernel);
    if (again && !are_the_same(*entries.back(), input))
      return cannot_have(
          path, input.name,
          Error{ErrorKind::invalid, "it is there twice, compiled from one source, with different bytes"});
    if (again) continue;
    kernels.push_back(kernel);
    entries.push_back(&input);
  }
  return bundle::write_in_order(
      path, about, std::move(kernels), [&](std::size_t i) -> Result<bundle::Compressed> {
        const CacheEntry entry =
            std::exchange(entries[i]->entry, {});  // not in memory twice for longer than needed
        Result<bundle::Compressed> compressed = bundle::compress(entry);
        if (!compressed) return cannot_have(path, entries[i]->name, compressed.error());
        return compressed;
      });
}

}  // namespace regard
