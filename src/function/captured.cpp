// The declarations of the tensors that a function reads.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/nearest.h"
#include "base/text.h"
#include "function/names.h"
#include "function/parse.h"

namespace regard::function {
namespace {

constexpr std::string_view shape_of_declaration =
    "a tensor is declared as name:type[dimensions], as in slope:fp32[1]";

bool is_name(std::string_view text) {
  return !text.empty() && begins_name(text.front()) && std::all_of(text.begin(), text.end(), continues_name);
}

Result<Type> type_of(std::string_view text) {
  static constexpr Type types[] = {Type::boolean, Type::integer, Type::real};
  std::vector<std::string_view> words;
  for (const Type type : types) {
    if (word(type) == text) return type;
    words.push_back(word(type));
  }
  return invalid(fmt::format("{} is not a type of tensor that a function reads{}", in_quotes(text),
                             suggestion(text, words)));
}

Result<Captured> declared(std::string_view text) {
  const std::size_t colon = text.find(':'), bracket = text.find('[');
  if (colon == std::string_view::npos || bracket == std::string_view::npos || bracket < colon ||
      text.back() != ']')
    return invalid(fmt::format("{}; {} is none", shape_of_declaration, in_quotes(text)));
  Captured tensor;
  tensor.name = text.substr(0, colon);
  if (!is_name(tensor.name))
    return invalid(fmt::format("{} is not a name; names have letters, digits and _", in_quotes(tensor.name)));
  if (has_meaning(tensor.name))
    return invalid(fmt::format("{} has a meaning in functions; choose another name", in_quotes(tensor.name)));
  const Result<Type> type = type_of(text.substr(colon + 1, bracket - colon - 1));
  if (!type) return tl::unexpected(type.error());
  tensor.type = *type;
  const std::string_view digits = text.substr(bracket + 1, text.size() - bracket - 2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), tensor.dimensions);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  if (!whole || tensor.dimensions < 0 || tensor.dimensions > static_cast<int>(most_dimensions))
    return invalid(
        fmt::format("{} has 0 to {} dimensions, not {}", tensor.name, most_dimensions, in_quotes(digits)));
  return tensor;
}

}  // namespace

Result<std::vector<Captured>> parse_tensors(std::string_view text) {
  std::vector<Captured> tensors;
  for (const std::string_view part : split(text, ",")) {
    Result<Captured> tensor = declared(part);
    if (!tensor) return tl::unexpected(tensor.error());
    for (const Captured& other : tensors)
      if (other.name == tensor->name) return invalid(fmt::format("{} is declared twice", tensor->name));
    tensors.push_back(std::move(*tensor));
  }
  if (tensors.size() > most_tensors)
    return invalid(fmt::format("a function reads at most {} tensors, not {}", most_tensors, tensors.size()));
  return tensors;
}

std::string print(const std::vector<Captured>& tensors) {
  std::string text;
  for (const Captured& tensor : tensors)
    text += fmt::format("{}{}:{}[{}]", text.empty() ? "" : ",", tensor.name, word(tensor.type),
                        tensor.dimensions);
  return text;
}

}  // namespace regard::function
