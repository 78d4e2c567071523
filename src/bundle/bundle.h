// Many kernels in one file: an index, and for each kernel its cache entry, packed. It knows bytes and names,
// not what they mean. At first only the index is read; each kernel is read when it is needed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "bundle/bytes.h"
#include "bundle/signature.h"
#include "cache/cache_entry.h"

namespace regard {

namespace bundle {
struct Index;
}

/// What the index says about a kernel.
struct BundleKernel {
  std::string_view name;  ///< its key as text; sorted by it, then by source
  Digest source;          ///< of what it was compiled from, independent of the compiler
  Digest identity;        ///< its identity in the cache
  std::uint64_t offset = 0, compressed_bytes = 0;  ///< where its packed entry is
  std::uint64_t bytes = 0;                         ///< of the unpacked entry
  Digest checksum;                                 ///< of the packed bytes
};

/// What a bundle says about itself.
struct BundleAbout {
  std::string title;        ///< the namespace of the manifest that it was made from, or empty
  std::string version;      ///< of the Regard that made it
  std::string undeclared;   ///< what happens to a kernel that is not in it: a word of bundle/about.h
  std::string tuning = {};  ///< lines of tuning records (docs/tuning.md), or empty
  friend bool operator==(const BundleAbout&, const BundleAbout&) = default;
};

/// Errors begin with "it" or "its": the caller prepends which bundle it is.
class Bundle {
 public:
  /// Reads only the index, and checks all of it. Where there are trusted keys, a bundle without a valid
  /// signature by one of them is refused. The file is opened again for each kernel that is read, so that any
  /// number of bundles costs no descriptors; whatever it contains by then, the kernel must have the checksum
  /// of this index.
  static Result<std::shared_ptr<const Bundle>> open(const std::string& path,
                                                    std::span<const PublicKey> trusted = {});
  /// Opens a bundle in memory, which must outlive it; `path` is its name in messages.
  static Result<std::shared_ptr<const Bundle>> in_memory(std::string path, std::span<const std::byte> bytes,
                                                         std::span<const PublicKey> trusted = {});
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  const std::string& path() const { return location_.path; }
  const bundle::Location& location() const { return location_; }
  /// Whether both were read from the same file, which was not changed in between.
  bool same_as(const Bundle& other) const;
  const BundleAbout& about() const { return about_; }
  std::span<const BundleKernel> kernels() const { return kernels_; }
  /// The kernels of that name, one for each source.
  std::span<const BundleKernel> named(std::string_view name) const;

  /// The entry of one of kernels(): checked before it is unpacked.
  Result<CacheEntry> read(const BundleKernel&) const;
  /// The packed bytes of a kernel as they are in the file, checked.
  Result<std::vector<std::byte>> read_compressed(const BundleKernel&) const;

  /// The bytes at the beginning of the file; they are what is signed.
  std::span<const std::byte> header() const { return header_; }
  /// The bytes of the index as they are in the file.
  std::span<const std::byte> index() const { return index_; }

  /// Whose signature it has, if any; an error where the signature is wrong.
  Result<std::optional<PublicKey>> checked_signer() const;
  /// Whose signature it has; nothing where it has none or a wrong one.
  std::optional<PublicKey> signer() const { return checked_signer().value_or(std::nullopt); }

 private:
  Bundle(bundle::Location location, bundle::Index index, std::span<const std::byte> header,
         std::optional<bundle::Signature> signature);
  static Result<std::shared_ptr<const Bundle>> open(bundle::Location, const bundle::Bytes&,
                                                    std::span<const PublicKey> trusted);

  bundle::Location location_;
  BundleAbout about_;
  std::vector<std::byte> index_;  // the names of kernels_ are in it
  std::vector<BundleKernel> kernels_;
  std::vector<std::byte> header_;
  std::optional<bundle::Signature> signature_;  // of header_
};

}  // namespace regard
