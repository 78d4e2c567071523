// The header and the index of a bundle as bytes:
//    header, packed kernels, index, and, where it is signed, a signature.
// There is no padding between the parts, so every byte is covered by a checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bundle/bundle.h"

namespace regard::bundle {

/// Increased when the layout changes: a reader of another schema refuses the file, and says so in a sentence.
inline constexpr std::uint32_t schema = 1;

/// The limit for an index: many times what a library of kernels takes.
inline constexpr std::uint64_t largest_index_bytes = 64 << 20;
inline constexpr std::uint64_t longest_name = 4096;

struct Header {
  std::array<char, 8> magic;
  std::uint32_t schema;
  std::uint32_t zero;
  std::uint64_t index_offset;
  std::uint64_t index_bytes;
  Digest index_digest;
};
static_assert(sizeof(Header) == 64);

Header header_of(std::uint64_t index_offset, std::span<const std::byte> index);
/// Reads and checks the header of a file that has `file_bytes` bytes.
Result<Header> decode_header(std::span<const std::byte>, std::uint64_t file_bytes);

struct Index {
  std::vector<std::byte> bytes;  ///< the names are in it
  BundleAbout about;
  std::vector<BundleKernel> kernels;
};
/// The index of kernels that are in order and contiguous.
Result<std::vector<std::byte>> encode_index(const BundleAbout&, std::span<const BundleKernel>);
Result<Index> decode_index(const Header&, std::vector<std::byte> bytes);

/// Whether a comes before b in an index.
bool stands_before(const BundleKernel& a, const BundleKernel& b);

}  // namespace regard::bundle
