#include "function/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "function/limits.h"
#include "function/names.h"

namespace regard::function {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
/// How long the number at the beginning of `text` is; `real`: whether it has a point or an exponent.
std::size_t length_of_number(std::string_view text, bool& real) {
  std::size_t n = 0;
  const auto digits = [&] {
    while (n < text.size() && is_digit(text[n])) ++n;
  };
  digits();
  real = n < text.size() && text[n] == '.';
  if (real) ++n, digits();
  if (n < text.size() && (text[n] == 'e' || text[n] == 'E')) {
    std::size_t exponent = n + 1;
    if (exponent < text.size() && (text[exponent] == '-' || text[exponent] == '+')) ++exponent;
    if (exponent < text.size() && is_digit(text[exponent])) real = true, n = exponent, digits();
  }
  return n;
}

/// The longest sign that `text` begins with; empty: none.
std::string_view sign_at(std::string_view text) {
  static constexpr std::string_view others[] = {"(", ")", "[", "]", ",", ";", "="};
  std::string_view longest;
  const auto consider = [&](std::string_view sign) {
    if (sign.size() > longest.size() && text.substr(0, sign.size()) == sign) longest = sign;
  };
  for (const OperationInfo& row : operations())
    if (row.level != Level::call) consider(row.text);
  for (const std::string_view sign : others) consider(sign);
  return longest;
}

}  // namespace

tl::unexpected<Error> wrong_at(std::size_t place, std::string sentence) {
  return invalid(fmt::format("{}, at character {}", std::move(sentence), place + 1));
}

Result<Lexer> Lexer::of(std::string_view text) {
  if (text.size() > most_characters)
    return invalid(fmt::format("a function has at most {} characters, and this one has {}", most_characters,
                               text.size()));
  Lexer lexer(text);
  if (Status status = lexer.advance(); !status) return tl::unexpected(status.error());
  return lexer;
}

Status Lexer::advance() {
  while (place_ < text_.size() && text_[place_] == ' ') ++place_;
  token_ = {Token::Kind::end, {}, place_};
  if (place_ == text_.size()) return {};
  const std::string_view rest = text_.substr(place_);
  std::size_t length = 0;
  if (begins_name(rest.front())) {
    token_.kind = Token::Kind::name;
    while (length < rest.size() && continues_name(rest[length])) ++length;
  } else if (is_digit(rest.front()) || (rest.front() == '.' && rest.size() > 1 && is_digit(rest[1]))) {
    bool real = false;
    length = length_of_number(rest, real);
    token_.kind = real ? Token::Kind::real : Token::Kind::integer;
    if (length < rest.size() && continues_name(rest[length]))
      return wrong_at(place_, fmt::format("{} is not a number", in_quotes(rest.substr(0, length + 1))));
  } else {
    token_.kind = Token::Kind::sign;
    length = sign_at(rest).size();
    if (length == 0)
      return wrong_at(place_, fmt::format("{} means nothing here",
                                          in_quotes(rest.substr(0, first_character(rest).bytes))));
  }
  token_.text = rest.substr(0, length);
  place_ += length;
  return {};
}

}  // namespace regard::function
