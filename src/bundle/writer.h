// Makes a bundle. The same kernels give the same bytes, in whatever order they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bundle/bundle.h"

namespace regard {

struct BundleInput {
  std::string name;
  Digest source, identity;  ///< as of BundleKernel
  CacheEntry entry;
};

/// Nothing is written unless everything can be. Kernels with the same name and source must be identical; the
/// bundle then has one of them. Errors are sentences that name the file.
Status write_bundle(const std::string& path, const BundleAbout&, std::vector<BundleInput>&&);

namespace bundle {

struct Compressed;
/// Packs a kernel, or reads it packed. Errors are sentences.
using GiveCompressed = std::function<Result<Compressed>(std::size_t i)>;

/// `kernels` in order and each once; only their names, sources and identities are used. They are requested
/// one by one.
Status write_in_order(const std::string& path, const BundleAbout&, std::vector<BundleKernel> kernels,
                      const GiveCompressed&);

}  // namespace bundle
}  // namespace regard
