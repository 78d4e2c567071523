#include "function/names.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace regard::function {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool continues_name(char c) {
  return begins_name(c) || is_digit(c);
}

std::optional<NumberName> number_name(std::string_view name) {
  const bool is_one = name.size() > 1 && (name.front() == 'n' || name.front() == 'f') &&
                      std::all_of(name.begin() + 1, name.end(), is_digit);
  if (!is_one) return std::nullopt;
  NumberName number{std::numeric_limits<int>::max(), name.front() == 'n' ? Type::integer : Type::real};
  std::from_chars(name.data() + 1, name.data() + name.size(), number.index);  // unchanged if it is too large
  return number;
}

bool has_meaning(std::string_view name) {
  const std::span<const std::string_view> all = variables();
  return std::find(all.begin(), all.end(), name) != all.end() || called(name) || number_name(name) ||
         name == word_of_true || name == word_of_false || name == word_of_infinity;
}

}  // namespace regard::function
