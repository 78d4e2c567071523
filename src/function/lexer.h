// The words of a function's text.
#pragma once

#include <string_view>

#include "base/result.h"

namespace regard::function {

struct Token {
  enum class Kind : unsigned char { name, integer, real, sign, end };
  Kind kind = Kind::end;
  std::string_view text;
  std::size_t place = 0;  ///< of its first character, from 0
};

/// A sentence about a place in a text.
tl::unexpected<Error> wrong_at(std::size_t place, std::string sentence);

class Lexer {
 public:
  /// Fails at once for a text that is too long.
  static Result<Lexer> of(std::string_view text);

  const Token& token() const { return token_; }
  bool is(std::string_view sign) const { return token_.kind == Token::Kind::sign && token_.text == sign; }
  /// Moves to the next token.
  Status advance();

 private:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::string_view text_;
  std::size_t place_ = 0;
  Token token_;
};

}  // namespace regard::function
