#include "cli/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/printable.h"

namespace regard::cli {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;  // the format's own limit
constexpr std::size_t length_bytes = safetensors_length_bytes;
constexpr std::size_t most_dimensions = 32;

std::uint64_t read_length(std::span<const std::byte> file) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) value |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  return value;
}

/// Parses strictly; an object that names a key twice is refused, where a plain parse would keep the last.
Result<Json> parse_header(std::string_view text) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      twice = value;
    return true;
  };
  Json header = Json::parse(text, watch, false);
  if (header.is_discarded() || !header.is_object()) return invalid("its header is not a JSON object");
  if (!twice.empty()) return invalid("its header names " + in_quotes(twice) + " twice");
  return header;
}

std::optional<std::vector<std::int64_t>> unsigned_numbers(const Json& entry, const char* key) {
  const auto list = entry.find(key);
  if (list == entry.end() || !list->is_array() || list->size() > most_dimensions) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Json& number : *list) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
    numbers.push_back(number.get<std::int64_t>());
  }
  return numbers;
}

std::optional<Element> element_called(std::string_view dtype) {
  if (dtype == "BOOL") return Element::u8;
  for (const ElementInfo& element : element_table()) {
    if (!element.safetensors.empty() && element.safetensors == dtype) return element.element;
  }
  return std::nullopt;
}

Result<NamedArray> read_entry(const std::string& name, const Json& entry, std::span<const std::byte> data) {
  if (!entry.is_object()) return invalid(in_quotes(name) + " is not described by an object");
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) return invalid(in_quotes(name) + " has no dtype");
  const std::string word = dtype->get<std::string>();
  const std::optional<Element> element = element_called(word);
  const auto shape = unsigned_numbers(entry, "shape");
  const auto offsets = unsigned_numbers(entry, "data_offsets");
  if (!shape || !offsets || offsets->size() != 2) {
    return invalid(in_quotes(name) + " needs a shape and two data_offsets, all whole numbers of 0 or more");
  }
  const std::int64_t begin = (*offsets)[0], end = (*offsets)[1];
  if (begin > end || static_cast<std::uint64_t>(end) > data.size()) {
    return invalid("it is truncated: " + in_quotes(name) + " ends at byte " + std::to_string(end) + " of " +
                   std::to_string(data.size()) + " bytes of data");
  }
  const auto bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  NamedArray array{name, ArrayView{element.value_or(Element::u8), *shape, bytes}, {}};
  if (!element) {
    array.unreadable = "it has dtype " + in_quotes(word) + ", which Regard does not read";
    return array;
  }
  const std::optional<std::int64_t> needed = bytes_of(*element, *shape);
  if (!needed || *needed != end - begin) {
    return invalid(in_quotes(name) + " says " + shape_text(*shape) + " of " +
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
  const Result<Json> header = parse_header(text);
  if (!header) return tl::unexpected(header.error());

  const std::span<const std::byte> data = file.subspan(length_bytes + static_cast<std::size_t>(length));
  std::vector<NamedArray> arrays;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    Result<NamedArray> array = read_entry(name, entry, data);
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
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::int64_t offset = 0;
  for (const NamedArray& each : arrays) {
    const std::int64_t end = offset + bytes_of(each.array.element, each.array.shape).value_or(0);
    header[each.name] = {{"dtype", std::string(info(each.array.element).safetensors)},
                         {"shape", each.array.shape},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts aligned
  std::string length(length_bytes, '\0');
  for (std::size_t i = 0; i < length_bytes; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 255);
  return length + text;
}

}  // namespace regard::cli
