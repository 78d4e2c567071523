#include "bundle/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <tuple>

#include "base/text.h"
#include "bundle/about.h"
#include "bundle/compressed.h"

namespace regard::bundle {
namespace {

static_assert(std::endian::native == std::endian::little, "a bundle's integers are");

constexpr std::array<char, 8> magic = {'R', 'E', 'G', 'B', 'N', 'D', '\x1a', '\n'};

// The index: this struct, a record for each kernel, the description, the names.
struct Beginning {
  std::uint64_t kernels;
  std::uint64_t about_bytes;
};

struct Record {
  Digest source, identity, checksum;
  std::uint64_t offset, compressed_bytes, bytes, name_bytes;
};
static_assert(sizeof(Beginning) == 16 && sizeof(Record) == 128);

template <class Part>
void append(std::vector<std::byte>& bytes, std::span<const Part> parts) {
  const auto added = std::as_bytes(parts);
  bytes.resize(bytes.size() + added.size());
  std::ranges::copy(added, bytes.end() - static_cast<std::ptrdiff_t>(added.size()));
}

template <class Part>
Part copied(std::span<const std::byte> bytes, std::size_t offset) {
  Part part;
  std::memcpy(&part, bytes.data() + offset, sizeof part);
  return part;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The name of a kernel in a sentence.
std::string kernel_in_words(std::uint64_t number, std::string_view name) {
  return fmt::format("its kernel {} ({})", number, in_quotes(name));
}

/// What is wrong with the location of a kernel that must begin at `begin`, as kernels are contiguous up to
/// the index; empty when nothing is.
std::string wrong_offset(const BundleKernel& kernel, std::uint64_t begin, std::uint64_t index_offset) {
  if (kernel.offset < begin) return "overlaps what is before it";
  if (kernel.offset > index_offset || kernel.compressed_bytes > index_offset - kernel.offset)
    return "reaches beyond the index";
  if (kernel.offset != begin) return "has a gap before it";
  return "";
}

std::string wrong_size(const BundleKernel& kernel) {
  if (kernel.compressed_bytes == 0) return "has no bytes";
  if (kernel.bytes < least_entry_bytes) return "is smaller than an entry can be";
  if (kernel.bytes > largest_entry_bytes || kernel.compressed_bytes > largest_compressed_bytes)
    return "is larger than an entry may be";
  return "";
}

/// What is wrong with the order of two consecutive kernels.
std::string wrong_order(const BundleKernel* before, const BundleKernel& kernel) {
  if (before == nullptr || stands_before(*before, kernel)) return "";
  return stands_before(kernel, *before) ? "is not in order" : "is in it twice";
}

Status check_kernels(std::span<const BundleKernel> kernels, std::uint64_t index_offset) {
  std::uint64_t end = sizeof(Header);
  const BundleKernel* before = nullptr;
  for (std::uint64_t number = 0; number < kernels.size(); ++number) {
    const BundleKernel& kernel = kernels[number];
    std::string wrong = wrong_offset(kernel, end, index_offset);
    if (wrong.empty()) wrong = wrong_size(kernel);
    if (wrong.empty()) wrong = wrong_order(before, kernel);
    if (!wrong.empty()) return invalid(kernel_in_words(number, kernel.name) + " " + wrong);
    end = kernel.offset + kernel.compressed_bytes;
    before = &kernel;
  }
  if (end != index_offset)
    return invalid(
        fmt::format("it has {} bytes before its index that belong to no kernel", index_offset - end));
  return {};
}

}  // namespace

bool stands_before(const BundleKernel& a, const BundleKernel& b) {
  return std::tie(a.name, a.source) < std::tie(b.name, b.source);
}

Header header_of(std::uint64_t index_offset, std::span<const std::byte> index) {
  return {magic, schema, 0, index_offset, index.size(), sha256(index)};
}

Result<Header> decode_header(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  if (bytes.size() < sizeof(Header)) return invalid("it is shorter than a bundle's header");
  const auto header = copied<Header>(bytes, 0);
  if (header.magic != magic) return invalid("it is not a bundle of kernels");
  if (header.schema != schema)
    return invalid(fmt::format("it has schema {}, and this Regard reads schema {}: {} Regard made it",
                               header.schema, schema, header.schema < schema ? "an older" : "a newer"));
  if (header.zero != 0) return invalid("its header is damaged");
  if (header.index_bytes > largest_index_bytes)
    return invalid(
        fmt::format("its index has {} bytes, and may have {}", header.index_bytes, largest_index_bytes));
  if (header.index_offset < sizeof(Header)) return invalid("its index overlaps its header");
  if (header.index_offset > file_bytes || header.index_bytes > file_bytes - header.index_offset)
    return invalid("its index is beyond the end of the file");
  return header;
}

Result<std::vector<std::byte>> encode_index(const BundleAbout& about, std::span<const BundleKernel> kernels) {
  const Result<std::string> description = print(about);
  if (!description) return tl::unexpected(description.error());
  std::vector<std::byte> bytes;
  const Beginning beginning{kernels.size(), description->size()};
  append(bytes, std::span(&beginning, 1));
  for (const BundleKernel& kernel : kernels) {
    const Record record{kernel.source,           kernel.identity, kernel.checksum,   kernel.offset,
                        kernel.compressed_bytes, kernel.bytes,    kernel.name.size()};
    append(bytes, std::span(&record, 1));
  }
  append(bytes, std::span<const char>(*description));
  for (const BundleKernel& kernel : kernels) append(bytes, std::span<const char>(kernel.name));
  if (bytes.size() > largest_index_bytes)
    return invalid(fmt::format("its index has {} bytes, and may have {}", bytes.size(), largest_index_bytes));
  return bytes;
}

Result<Index> decode_index(const Header& header, std::vector<std::byte> bytes) {
  if (sha256(bytes) != header.index_digest) return invalid("its index is damaged: the checksum is wrong");
  if (bytes.size() < sizeof(Beginning)) return invalid("its index is too short");
  const auto beginning = copied<Beginning>(bytes, 0);
  std::size_t left = bytes.size() - sizeof beginning;
  if (beginning.kernels > left / sizeof(Record)) return invalid("its index has fewer kernels than it says");
  const auto count = static_cast<std::size_t>(beginning.kernels);
  left -= count * sizeof(Record);
  if (beginning.about_bytes > left) return invalid("its description reaches beyond its index");
  const auto about_bytes = static_cast<std::size_t>(beginning.about_bytes);
  left -= about_bytes;

  Index index{std::move(bytes), {}, {}};
  const std::span<const std::byte> all = index.bytes;
  std::size_t offset = sizeof beginning + count * sizeof(Record);
  Result<BundleAbout> about = parse_about(text_of(all.subspan(offset, about_bytes)));
  if (!about) return tl::unexpected(about.error());
  index.about = std::move(*about);
  offset += about_bytes;

  index.kernels.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto record = copied<Record>(all, sizeof beginning + i * sizeof(Record));
    if (record.name_bytes == 0 || record.name_bytes > longest_name)
      return invalid(fmt::format("its kernel {} has a name of {} bytes; names have 1 to {}", i,
                                 record.name_bytes, longest_name));
    if (record.name_bytes > left)
      return invalid(fmt::format("the name of its kernel {} reaches beyond its index", i));
    const auto name_bytes = static_cast<std::size_t>(record.name_bytes);
    index.kernels.push_back({text_of(all.subspan(offset, name_bytes)), record.source, record.identity,
                             record.offset, record.compressed_bytes, record.bytes, record.checksum});
    offset += name_bytes;
    left -= name_bytes;
  }
  if (left != 0) return invalid(fmt::format("its index has {} bytes too many", left));
  if (const Status right = check_kernels(index.kernels, header.index_offset); !right)
    return tl::unexpected(right.error());
  return index;
}

}  // namespace regard::bundle
