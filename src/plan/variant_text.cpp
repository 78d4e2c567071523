#include "plan/variant_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "problem/words.h"

namespace regard {
namespace {

std::string member(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals != std::string_view::npos) {
    const std::string_view value = word.substr(equals + 1);
    const bool number = std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
    const char* quote = number ? "" : "\"";
    return fmt::format("{} = {}{}{}", word.substr(0, equals), quote, value, quote);
  }
  if (from_word<Pass>(word)) return fmt::format("pass = \"{}\"", word);
  if (from_word<DType>(word)) return fmt::format("dtype = \"{}\"", word);
  return fmt::format("{} = true", word);
}

}  // namespace

std::string as_variant(const Signature& signature) {
  std::vector<std::string> members;
  const std::string text = print(signature);
  for (const std::string_view word : split(text, " ")) members.push_back(member(word));
  return fmt::format("{}", fmt::join(members, ", "));
}

}  // namespace regard
