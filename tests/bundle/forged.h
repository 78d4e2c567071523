// A bundle built as bytes, field by field, so that each field can be wrong while all checksums are right.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "bundle/compressed.h"
#include "bundle_fixture.h"

namespace regard {

struct ForgedKernel {
  Digest source, identity, checksum;
  std::uint64_t offset, compressed_bytes, bytes, name_bytes;
  std::string name;
};

struct Forged {
  std::string magic = "REGBND\x1a\n";
  std::uint32_t schema = 1, zero = 0;
  std::uint64_t index_offset = 0, index_bytes = 0;  ///< 0: the correct value

  std::string compressed;  ///< of all kernels
  std::vector<ForgedKernel> kernels;
  std::uint64_t count = 0, about_bytes = 0;  ///< 0: the correct value
  std::string about = R"({"title":"acme","version":"1.2.3","undeclared":"jit"})";
  std::string behind_names, behind_index;

  /// A correct bundle of these kernels.
  static Forged sound(const std::vector<int>& numbers) {
    Forged forged;
    for (const int number : numbers) {
      const BundleInput input = input_number(number);
      const bundle::Compressed compressed = *bundle::compress(input.entry);
      forged.add(input.name, input.source, input.identity,
                 {reinterpret_cast<const char*>(compressed.bytes.data()), compressed.bytes.size()},
                 compressed.entry_bytes);
    }
    return forged;
  }

  void add(const std::string& name, const Digest& source, const Digest& identity, const std::string& bytes,
           std::uint64_t entry_bytes) {
    kernels.push_back({source, identity, sha256(bytes), 64 + compressed.size(), bytes.size(), entry_bytes,
                       name.size(), name});
    compressed += bytes;
  }

  std::string file() const {
    const std::string written = index();
    std::string bytes = magic;
    put(bytes, schema);
    put(bytes, zero);
    put(bytes, index_offset != 0 ? index_offset : 64 + compressed.size());
    put(bytes, index_bytes != 0 ? index_bytes : written.size());
    put(bytes, sha256(written));
    return bytes + compressed + written + behind_index;
  }

 private:
  template <class Field>
  static void put(std::string& bytes, const Field& field) {
    bytes.append(reinterpret_cast<const char*>(&field), sizeof field);
  }

  std::string index() const {
    std::string bytes, names;
    put(bytes, count != 0 ? count : std::uint64_t{kernels.size()});
    put(bytes, about_bytes != 0 ? about_bytes : std::uint64_t{about.size()});
    for (const ForgedKernel& kernel : kernels) {
      for (const Digest& digest : {kernel.source, kernel.identity, kernel.checksum}) put(bytes, digest);
      for (const std::uint64_t field :
           {kernel.offset, kernel.compressed_bytes, kernel.bytes, kernel.name_bytes})
        put(bytes, field);
      names += kernel.name;
    }
    return bytes + about + names + behind_names;
  }
};

inline Result<std::shared_ptr<const Bundle>> open_bytes(const std::string& bytes,
                                                        std::span<const PublicKey> trusted = {}) {
  return Bundle::in_memory("bytes", std::as_bytes(std::span(bytes)), trusted);
}

/// The error of these bytes as a bundle, or of a kernel in it; empty if there is none.
inline std::string wrong_with(const std::string& bytes, std::span<const PublicKey> trusted = {}) {
  const auto bundle = open_bytes(bytes, trusted);
  if (!bundle) return bundle.error().message;
  for (const BundleKernel& kernel : (*bundle)->kernels())
    if (const Result<CacheEntry> entry = (*bundle)->read(kernel); !entry) return entry.error().message;
  return "";
}

}  // namespace regard
