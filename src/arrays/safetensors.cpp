#include "arrays/safetensors.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/json.h"
#include "base/text.h"

namespace regard {
namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // the format's own limit
constexpr std::size_t length_bytes = safetensors_length_bytes;
constexpr std::size_t most_dimensions = 32;
constexpr std::size_t most_tensors = 100'000;  // ten times those of the largest models

std::uint64_t read_length(std::span<const std::byte> file) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) value |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  return value;
}

/// What a header says about one tensor.
struct Entry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> shape, offsets;
};

/// Reads a header value by value, so that time and memory are proportional to its length. An object with a
/// duplicate key is refused, where an ordinary reader would keep the last one.
class HeaderReader {
 public:
  std::vector<Entry> entries;

  Status receive(const JsonEvent& json) {
    if (json.depth == 0) return json.kind == Kind::object || json.kind == Kind::end ? Status() : no_object();
    if (json.kind == Kind::end) return {};
    if (json.depth == 1) return begin(json);
    if (json.depth == 2) return read_member(json);
    if (json.depth == 3 && numbers_ != nullptr && *numbers_) add_number(json);
    return {};
  }

  static tl::unexpected<Error> no_object() { return invalid("its header is not a JSON object"); }

 private:
  using Kind = JsonEvent::Kind;

  static tl::unexpected<Error> twice(std::string_view key) {
    return invalid("its header names " + in_quotes(key) + " twice");
  }

  Status begin(const JsonEvent& json) {
    const std::string name(json.key);
    if (!names_.insert(name).second) return twice(name);
    members_.clear();
    numbers_ = nullptr;
    in_metadata_ = name == "__metadata__";
    if (in_metadata_) return {};
    if (json.kind != Kind::object) return invalid(in_quotes(name) + " is not described by an object");
    if (entries.size() == most_tensors)
      return invalid("it holds more than " + std::to_string(most_tensors) + " tensors");
    entries.push_back({name, {}, {}, {}});
    return {};
  }

  Status read_member(const JsonEvent& json) {
    if (!members_.insert(std::string(json.key)).second) return twice(json.key);
    numbers_ = nullptr;
    if (in_metadata_) return {};
    Entry& entry = entries.back();
    if (json.key == "dtype" && json.kind == Kind::text) entry.dtype = json.text;
    if (json.key == "shape") numbers_ = &entry.shape;
    if (json.key == "data_offsets") numbers_ = &entry.offsets;
    if (numbers_ != nullptr && json.kind == Kind::list) numbers_->emplace();
    return {};
  }

  /// One invalid number makes the whole list count as missing.
  void add_number(const JsonEvent& json) {
    const bool natural = json.kind == Kind::integer && json.integer >= 0;
    if (!natural || (*numbers_)->size() == most_dimensions) {
      numbers_->reset();
    } else {
      (*numbers_)->push_back(json.integer);
    }
  }

  std::set<std::string, std::less<>> names_, members_;
  std::optional<std::vector<std::int64_t>>* numbers_ = nullptr;
  bool in_metadata_ = false;
};

Result<std::vector<Entry>> parse_header(std::string_view text) {
  HeaderReader reader;
  const Status read =
      read_json(text, "its header", [&](const JsonEvent& json) { return reader.receive(json); });
  if (!read) return tl::unexpected(read.error());
  return std::move(reader.entries);
}

std::optional<Element> element_called(std::string_view dtype) {
  if (dtype == "BOOL") return Element::u8;
  for (const ElementInfo& element : element_table()) {
    if (!element.safetensors.empty() && element.safetensors == dtype) return element.element;
  }
  return std::nullopt;
}

Result<NamedArray> read_entry(const Entry& entry, std::span<const std::byte> data) {
  const std::string& name = entry.name;
  if (!entry.dtype) return invalid(in_quotes(name) + " has no dtype");
  const std::optional<Element> element = element_called(*entry.dtype);
  if (!entry.shape || !entry.offsets || entry.offsets->size() != 2) {
    return invalid(in_quotes(name) +
                   " needs a shape and two data_offsets, all of them whole numbers that are not negative");
  }
  const std::vector<std::int64_t>& shape = *entry.shape;
  const std::int64_t begin = (*entry.offsets)[0], end = (*entry.offsets)[1];
  if (begin > end || static_cast<std::uint64_t>(end) > data.size()) {
    return invalid("it is truncated: " + in_quotes(name) + " ends at byte " + std::to_string(end) + " of " +
                   std::to_string(data.size()) + " bytes of data");
  }
  const auto bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  NamedArray array{name, ArrayView{element.value_or(Element::u8), shape, bytes}, {}};
  if (!element) {
    array.unreadable = "it has dtype " + in_quotes(*entry.dtype) + ", which Regard does not read";
    return array;
  }
  const std::optional<std::int64_t> needed = bytes_of(*element, shape);
  if (!needed || *needed != end - begin) {
    return invalid(in_quotes(name) + " says " + shape_text(shape) + " of " +
                   std::string(info(*element).name) + ", but its data is " + std::to_string(end - begin) +
                   " bytes long");
  }
  return array;
}

}  // namespace

std::size_t safetensors_beginning(std::span<const std::byte> file) {
  if (file.size() < length_bytes) return file.size();
  const std::size_t rest = file.size() - length_bytes;
  return length_bytes + std::min<std::uint64_t>({read_length(file), longest_header, rest});
}

Result<std::vector<NamedArray>> read_safetensors(std::span<const std::byte> file) {
  if (file.size() < length_bytes)
    return invalid("it is truncated: a safetensors header is longer than the file");
  const std::uint64_t length = read_length(file);
  if (length > longest_header) {
    return invalid("it is not a safetensors file: its header would be " + std::to_string(length) +
                   " bytes long");
  }
  if (length > file.size() - length_bytes) {
    return invalid("it is truncated: a safetensors header is longer than the file");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + length_bytes, length);
  const Result<std::vector<Entry>> header = parse_header(text);
  if (!header) return tl::unexpected(header.error());

  const std::span<const std::byte> data = file.subspan(length_bytes + static_cast<std::size_t>(length));
  std::vector<NamedArray> arrays;
  for (const Entry& entry : *header) {
    Result<NamedArray> array = read_entry(entry, data);
    if (!array) return tl::unexpected(array.error());
    arrays.push_back(*std::move(array));
  }
  std::ranges::stable_sort(arrays, {}, [](const NamedArray& each) {
    return std::pair(each.array.bytes.data(), each.array.bytes.size());
  });
  const std::byte* next = data.data();
  for (const NamedArray& each : arrays) {
    if (each.array.bytes.data() != next) {
      return invalid("the data of " + in_quotes(each.name) +
                     " overlaps that of another tensor or leaves a hole");
    }
    next += each.array.bytes.size();
  }
  if (next != data.data() + data.size()) return invalid("it holds more data than its tensors fill");
  return arrays;
}

std::string safetensors_header(std::span<const NamedArray> arrays) {
  JsonWriter header;
  std::int64_t offset = 0;
  header.object([&] {
    for (const NamedArray& each : arrays) {
      const std::int64_t end = offset + bytes_of(each.array.element, each.array.shape).value_or(0);
      header.member(each.name, [&] {
        header.object([&] {
          header.member("dtype", info(each.array.element).safetensors);
          header.member("shape", each.array.shape);
          header.member("data_offsets", std::vector<std::int64_t>{offset, end});
        });
      });
      offset = end;
    }
  });
  std::string text = header.take();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data starts aligned
  std::string length(length_bytes, '\0');
  for (std::size_t i = 0; i < length_bytes; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 255);
  return length + text;
}

}  // namespace regard
