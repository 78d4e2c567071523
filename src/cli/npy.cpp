#include "cli/npy.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace regard::cli {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t longest_header = npy_beginning - 12;  // NumPy itself writes less than 200 bytes
constexpr std::size_t most_dimensions = 32;                 // NumPy's own limit

/// Reads the header's Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  /// Skips spaces, then consumes `token` if it is next.
  bool take(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  std::optional<std::string_view> string() {
    skip_spaces();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  /// A whole number in Python's syntax: no sign, and no 0 before other digits.
  std::optional<std::int64_t> integer() {
    skip_spaces();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    const std::string_view digits(rest_.data(), static_cast<std::size_t>(end - rest_.data()));
    if (error != std::errc{} || digits.starts_with('-') || (digits.size() > 1 && digits[0] == '0'))
      return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }
  std::string_view rest_;
};

struct Header {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

std::optional<bool> read_bool(Literal& literal) {
  if (literal.take("True")) return true;
  if (literal.take("False")) return false;
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> read_shape(Literal& literal) {
  if (!literal.take("(")) return std::nullopt;
  std::vector<std::int64_t> shape;
  while (!literal.take(")")) {
    const std::optional<std::int64_t> size = literal.integer();
    if (!size || shape.size() == most_dimensions) return std::nullopt;
    shape.push_back(*size);
    if (!literal.take(",")) {
      // (4) is a number, only (4,) a tuple.
      if (shape.size() == 1 || !literal.take(")")) return std::nullopt;
      break;
    }
  }
  return shape;
}

/// All three keys, each once, and nothing else.
std::optional<Header> read_header(std::string_view text) {
  Literal literal(text);
  Header header;
  if (!literal.take("{")) return std::nullopt;
  while (!literal.take("}")) {
    const std::optional<std::string_view> key = literal.string();
    if (!key || !literal.take(":")) return std::nullopt;
    if (key == "descr" && !header.descr) {
      if (!(header.descr = literal.string())) return std::nullopt;
    } else if (key == "fortran_order" && !header.fortran_order) {
      if (!(header.fortran_order = read_bool(literal))) return std::nullopt;
    } else if (key == "shape" && !header.shape) {
      if (!(header.shape = read_shape(literal))) return std::nullopt;
    } else {
      return std::nullopt;
    }
    if (!literal.take(",")) {
      if (!literal.take("}")) return std::nullopt;
      break;
    }
  }
  if (!literal.at_end() || !header.descr || !header.fortran_order || !header.shape) return std::nullopt;
  return header;
}

Result<Element> element_from_descr(std::string_view descr) {
  // One-byte types have no byte order: NumPy writes '|', others '<'; ml_dtypes writes its types as 'V'.
  std::string normal(descr);
  if (normal.size() == 3 && normal[2] == '1' && (normal[0] == '<' || normal[0] == '>')) normal[0] = '|';
  if (normal == "|V2") normal = "<V2";
  if (normal == "|b1") normal = "|u1";
  for (const ElementInfo& element : element_table()) {
    if (!element.npy.empty() && element.npy == normal) return element.element;
  }
  if (normal.starts_with('>')) {
    return invalid("it is big-endian (" + in_quotes(normal) + "); save it with the byte order '<'");
  }
  return invalid("its dtype " + in_quotes(descr) + " is not one that Regard reads (float, int or uint)");
}

}  // namespace

Result<ArrayView> read_npy(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(magic)) return invalid("it is not a .npy file: it does not start with \\x93NUMPY");
  if (text.size() < 10) return invalid("it is truncated: a .npy header is longer than the file");
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(file[i]); };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0) {
    return invalid("it has .npy version " + std::to_string(version) + "." + std::to_string(byte(7)) +
                   "; Regard reads 1.0, 2.0 and 3.0");
  }
  const std::size_t start = version == 1 ? 10 : 12;
  if (text.size() < start) return invalid("it is truncated: a .npy header is longer than the file");
  const std::size_t length =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > longest_header) return invalid("its .npy header is " + std::to_string(length) + " bytes long");
  if (text.size() - start < length) return invalid("it is truncated: a .npy header is longer than the file");

  const std::optional<Header> header = read_header(text.substr(start, length));
  if (!header) {
    return invalid(
        "its .npy header is not {'descr': '...', 'fortran_order': ..., 'shape': (...)} of one array");
  }
  const Result<Element> element = element_from_descr(*header->descr);
  if (!element) return tl::unexpected(element.error());
  if (*header->fortran_order && header->shape->size() > 1) {
    return invalid("it is in Fortran order; save numpy.ascontiguousarray of it");
  }
  const std::optional<std::int64_t> needed = bytes_of(*element, *header->shape);
  const std::size_t have = text.size() - start - length;
  if (!needed || static_cast<std::uint64_t>(*needed) != have) {
    const std::string needs = needed ? std::to_string(*needed) : "more than 2^63";
    return invalid(std::string("it is ") +
                   (needed && have > static_cast<std::uint64_t>(*needed) ? "too long" : "truncated") + ": " +
                   shape_text(*header->shape) + " of " + std::string(info(*element).name) + " needs " +
                   needs + " bytes, and it holds " + std::to_string(have));
  }
  return ArrayView{*element, *header->shape, file.subspan(start + length)};
}

std::string npy_header(Element element, std::span<const std::int64_t> shape) {
  if (element == Element::bf16) element = Element::u16;
  if (is_eight_bit_float(element)) element = Element::u8;
  std::string dictionary =
      "{'descr': '" + std::string(info(element).npy) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : shape) dictionary += std::to_string(size) + ", ";
  dictionary += "), }";
  // NumPy aligns the data to 64 bytes, so that it can be mapped.
  const std::size_t before = magic.size() + 4;
  dictionary.append(63 - (before + dictionary.size()) % 64, ' ');
  dictionary += '\n';
  std::string header(magic);
  header +=
      {'\1', '\0', static_cast<char>(dictionary.size() & 255), static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

}  // namespace regard::cli
