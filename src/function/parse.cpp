#include "function/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/nearest.h"
#include "base/text.h"
#include "function/lexer.h"
#include "function/names.h"

namespace regard::function {
namespace {

/// The operator with this text, between two operands or before one.
std::optional<Operation> operator_of(std::string_view text, int operands) {
  const std::span<const OperationInfo> all = operations();
  const auto found = std::find_if(all.begin(), all.end(), [&](const OperationInfo& row) {
    return row.level != Level::call && row.operands == operands && row.text == text;
  });
  if (found == all.end()) return std::nullopt;
  return static_cast<Operation>(found - all.begin());
}

Level tighter(Level level) {
  return static_cast<Level>(static_cast<int>(level) + 1);
}

class Parser {
 public:
  Parser(Lexer lexer, std::vector<Captured> tensors) : lexer_(lexer) {
    function_.tensors = std::move(tensors);
  }

  Result<Function> function(Purpose purpose) {
    while (true) {
      const std::size_t place = lexer_.token().place;
      Result<NodeIndex> value = statement();
      if (!value) return tl::unexpected(value.error());
      if (*value == none) continue;
      const Type type = purpose == Purpose::keep ? Type::boolean : Type::real;
      value = checked(function_.tree.converted(*value, type), place);
      if (!value) return tl::unexpected(value.error());
      function_.root = *value;
      return std::move(function_);
    }
  }

 private:
  /// Reads `name=value;` and returns `none`, or reads the expression at the end.
  Result<NodeIndex> statement() {
    const Token first = lexer_.token();
    if (first.kind == Token::Kind::name) {
      Lexer ahead = lexer_;
      if (Status status = ahead.advance(); !status) return tl::unexpected(status.error());
      if (ahead.is("=")) return local(first, ahead);
    }
    Result<NodeIndex> value = expression(Level::either);
    if (!value) return value;
    if (lexer_.token().kind != Token::Kind::end) return unexpected("the end of the function or an operator");
    return value;
  }

  Result<NodeIndex> local(const Token& name, Lexer after_name) {
    if (is_taken(name.text))
      return wrong_at(name.place,
                      fmt::format("{} has a meaning already; choose another name", in_quotes(name.text)));
    lexer_ = after_name;
    if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
    const Result<NodeIndex> value = expression(Level::either);
    if (!value) return value;
    if (!lexer_.is(";")) return unexpected("';' after the value of a name");
    if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
    locals_.emplace_back(name.text, *value);
    return none;
  }

  /// Reads operators that bind at least as tightly as `least`, and their operands.
  Result<NodeIndex> expression(Level least) {
    const Nesting nesting(depth_);
    // An operand in parentheses is two calls of this.
    if (depth_ > 2 * most_depth + 1)
      return wrong_at(lexer_.token().place, fmt::format("a function has at most {} levels", most_depth));
    Result<NodeIndex> left = prefix();
    while (left) {
      const Token sign = lexer_.token();
      const auto operation = sign.kind == Token::Kind::sign ? operator_of(sign.text, 2) : std::nullopt;
      if (!operation || info(*operation).level < least) return left;
      const Level level = info(*operation).level;
      if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
      const Result<NodeIndex> right = expression(tighter(level));
      if (!right) return right;
      left = applied(*operation, {*left, *right}, sign.place);
      if (left && level == Level::comparison && continues_comparison())
        return wrong_at(lexer_.token().place, "comparisons do not chain; join two by '&&'");
    }
    return left;
  }
  bool continues_comparison() const {
    const auto next =
        lexer_.token().kind == Token::Kind::sign ? operator_of(lexer_.token().text, 2) : std::nullopt;
    return next && info(*next).level == Level::comparison;
  }

  Result<NodeIndex> prefix() {
    const Token sign = lexer_.token();
    const auto operation = sign.kind == Token::Kind::sign ? operator_of(sign.text, 1) : std::nullopt;
    if (!operation) return primary();
    if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
    if (*operation == Operation::negate && lexer_.token().kind == Token::Kind::integer) return integer(true);
    const Result<NodeIndex> operand = expression(Level::prefix);
    if (!operand) return operand;
    return applied(*operation, {*operand}, sign.place);
  }

  Result<NodeIndex> primary() {
    switch (lexer_.token().kind) {
      case Token::Kind::integer:
        return integer(false);
      case Token::Kind::real:
        return real();
      case Token::Kind::name:
        return named();
      case Token::Kind::sign:
      case Token::Kind::end:
        break;
    }
    if (!lexer_.is("(")) return unexpected("a number, a name or '('");
    if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
    Result<NodeIndex> inner = expression(Level::either);
    if (!inner) return inner;
    if (!lexer_.is(")")) return unexpected("')'");
    if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
    return inner;
  }

  Result<NodeIndex> integer(bool negative) {
    const Token digits = lexer_.token();
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.text.data(), digits.text.data() + digits.text.size(), value);
    if (negative) value = -value;
    if (error != std::errc{} || value > INT32_MAX || value < INT32_MIN)
      return wrong_at(digits.place,
                      fmt::format("{} is not an int32; {}.0 would be fp32", in_quotes(digits.text),
                                  shortened(std::string(digits.text), 20)));
    if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
    return function_.tree.constant(static_cast<std::int32_t>(value));
  }

  Result<NodeIndex> real() {
    const Token digits = lexer_.token();
    float value = 0;
    const auto [end, error] =
        std::from_chars(digits.text.data(), digits.text.data() + digits.text.size(), value);
    if (error != std::errc{})
      return wrong_at(digits.place, fmt::format("{} is beyond fp32", in_quotes(digits.text)));
    if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
    return function_.tree.constant(value);
  }

  Result<NodeIndex> named() {
    const Token name = lexer_.token();
    if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
    if (lexer_.is("(")) return call(name);
    if (lexer_.is("[")) return load(name);
    if (name.text == word_of_true || name.text == word_of_false)
      return function_.tree.constant(name.text == word_of_true);
    if (name.text == word_of_infinity) return function_.tree.constant(std::numeric_limits<float>::infinity());
    for (auto local = locals_.rbegin(); local != locals_.rend(); ++local)
      if (local->first == name.text) return local->second;
    const std::span<const std::string_view> all = variables();
    const auto found = std::find(all.begin(), all.end(), name.text);
    if (found != all.end()) return function_.tree.variable(static_cast<Variable>(found - all.begin()));
    if (tensor(name.text) >= 0) return scalar(name);
    if (const auto number = number_name(name.text); number && number->index < static_cast<int>(most_numbers))
      return function_.tree.number(number->index, number->type);
    return unknown(name);
  }

  /// A tensor without dimensions needs no index.
  Result<NodeIndex> scalar(const Token& name) {
    return checked(function_.tree.load(tensor(name.text), captured(name.text), {}), name.place);
  }

  Result<NodeIndex> call(const Token& name) {
    const auto operation = called(name.text);
    if (!operation) {
      std::vector<std::string_view> names;
      for (const OperationInfo& row : operations())
        if (row.level == Level::call) names.push_back(row.text);
      return wrong_at(name.place, fmt::format("{} is not a function here{}", in_quotes(name.text),
                                              suggestion(name.text, names)));
    }
    const Result<std::vector<NodeIndex>> operands = list(")");
    if (!operands) return tl::unexpected(operands.error());
    return applied(*operation, *operands, name.place);
  }

  Result<NodeIndex> load(const Token& name) {
    const int index = tensor(name.text);
    if (index < 0) return unknown(name);
    const Result<std::vector<NodeIndex>> indices = list("]");
    if (!indices) return tl::unexpected(indices.error());
    return checked(function_.tree.load(index, captured(name.text), *indices), name.place);
  }

  /// Expressions with commas between them, from the opening bracket to the closing one.
  Result<std::vector<NodeIndex>> list(std::string_view closing) {
    std::vector<NodeIndex> values;
    do {
      if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
      const Result<NodeIndex> value = expression(Level::either);
      if (!value) return tl::unexpected(value.error());
      values.push_back(*value);
    } while (lexer_.is(","));
    if (!lexer_.is(closing)) return unexpected(fmt::format("',' or '{}'", closing));
    if (Status status = lexer_.advance(); !status) return tl::unexpected(status.error());
    return values;
  }

  Result<NodeIndex> applied(Operation operation, const std::vector<NodeIndex>& operands, std::size_t place) {
    return checked(function_.tree.apply(operation, operands), place);
  }
  Result<NodeIndex> checked(const Result<NodeIndex>& node, std::size_t place) const {
    if (!node) return wrong_at(place, node.error().message);
    if (function_.tree.nodes().size() > most_nodes)
      return wrong_at(place,
                      fmt::format("a function has at most {} operations, names and numbers", most_nodes));
    if (function_.tree.depth(*node) > most_depth)
      return wrong_at(place, fmt::format("a function has at most {} levels", most_depth));
    return node;
  }

  int tensor(std::string_view name) const {
    const auto found = std::find_if(function_.tensors.begin(), function_.tensors.end(),
                                    [&](const Captured& tensor) { return tensor.name == name; });
    return found == function_.tensors.end() ? -1 : static_cast<int>(found - function_.tensors.begin());
  }
  const Captured& captured(std::string_view name) const {
    return function_.tensors[static_cast<std::size_t>(tensor(name))];
  }

  /// Whether a local name would hide something.
  bool is_taken(std::string_view name) const {
    return has_meaning(name) || tensor(name) >= 0 ||
           std::any_of(locals_.begin(), locals_.end(),
                       [&](const auto& local) { return local.first == name; });
  }

  tl::unexpected<Error> unknown(const Token& name) const {
    std::vector<std::string_view> names(variables().begin(), variables().end());
    for (const Captured& tensor : function_.tensors) names.push_back(tensor.name);
    for (const auto& local : locals_) names.push_back(local.first);
    const std::string_view near = nearest_within(name.text, names, 3);
    return wrong_at(
        name.place,
        near.empty()
            ? fmt::format("{} is not a name here; tensors are declared in tensors=", in_quotes(name.text))
            : fmt::format("{} is not a name here; {} is", in_quotes(name.text), in_quotes(near)));
  }
  tl::unexpected<Error> unexpected(std::string_view instead) const {
    const Token& token = lexer_.token();
    return wrong_at(token.place,
                    token.kind == Token::Kind::end
                        ? fmt::format("the text ends where {} belongs", instead)
                        : fmt::format("{} stands where {} belongs", in_quotes(token.text), instead));
  }

  struct Nesting {
    explicit Nesting(int& depth) : depth_(++depth) {}
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    int& depth_;
  };

  Lexer lexer_;
  Function function_;
  std::vector<std::pair<std::string_view, NodeIndex>> locals_;
  int depth_ = 0;
};

}  // namespace

Result<Function> parse(Purpose purpose, std::string_view text, std::vector<Captured> tensors) {
  return Lexer::of(text).and_then(
      [&](const Lexer& lexer) { return Parser(lexer, std::move(tensors)).function(purpose); });
}

}  // namespace regard::function
