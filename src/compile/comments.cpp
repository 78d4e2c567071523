#include "compile/comments.h"

#include <algorithm>
#include <array>

namespace regard {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Part of a name or number; names can contain bytes of UTF-8.
bool is_of_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_one_of(std::string_view list, char c) {
  return list.find(c) != std::string_view::npos;
}

/// Characters that end a line, or begin a comment or a literal. A table makes the search for them twice as
/// fast, and each kernel that is taken from the cache needs it.
constexpr std::array<bool, 256> is_special = [] {
  std::array<bool, 256> special{};
  for (const unsigned char c : {'\n', '/', '"', '\''}) special[c] = true;
  return special;
}();

class Stripper {
 public:
  explicit Stripper(std::string_view text) : text_(text) { out_.reserve(text.size()); }

  std::string run() {
    while (at_ < text_.size()) step();
    trim();
    return std::move(out_);
  }

 private:
  void step() {
    std::size_t end = at_;
    while (end < text_.size() && !is_special[static_cast<unsigned char>(text_[end])]) ++end;
    copy(end - at_);
    if (at_ == text_.size()) return;
    const char c = text_[at_];
    if (c == '\n')
      end_line();
    else if (c == '/' && peek(1) == '/')
      skip_line_comment();
    else if (c == '/' && peek(1) == '*')
      skip_block_comment();
    else if (c == '"' && begins_raw_string())
      copy_raw_string();
    else if (c == '"' || (c == '\'' && !separates_digits()))
      copy_literal(c);
    else
      copy(1);
  }

  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n'; }

  void copy(std::size_t count) {
    count = std::min(count, text_.size() - at_);
    out_.append(text_, at_, count);
    at_ += count;
  }

  std::string_view line() const { return std::string_view(out_).substr(line_); }

  void trim() {
    while (out_.size() > line_ && is_blank(out_.back())) out_.pop_back();
  }

  void end_line() {
    ++at_;
    trim();
    std::string_view words = line();
    while (!words.empty() && is_blank(words.front())) words.remove_prefix(1);
    if (words.empty() || words == "\\") {
      // In a macro, a line with only its continuation can be dropped; but an empty line ends the macro, which
      // the previous line must then do.
      const bool ends_macro = words.empty();
      out_.resize(line_);
      if (!ends_macro || !out_.ends_with("\\\n")) return;
      out_.resize(out_.size() - 2);
      line_ = out_.rfind('\n') + 1;  // npos + 1 is 0
      trim();
    }
    out_ += '\n';
    line_ = out_.size();
  }

  /// Up to the end of the line, or of the line that it continues on.
  void skip_line_comment() {
    for (;; ++at_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      std::size_t last = at_;
      while (last > 0 && is_blank(text_[last - 1])) --last;
      if (at_ == text_.size() || last == 0 || text_[last - 1] != '\\') return;
    }
  }

  /// A comment counts as a blank, which is kept where two words would otherwise join.
  void skip_block_comment() {
    const std::size_t end = text_.find("*/", at_ + 2);
    at_ = end == std::string_view::npos ? text_.size() : end + 2;
    const char before = line().empty() ? ' ' : out_.back(), after = peek(0);
    if (is_blank(before)) {
      while (is_blank(peek(0))) ++at_;
      return;
    }
    constexpr std::string_view opening = "([{,;", closing = ")]},; \t\n";
    if (!is_one_of(closing, after) && !is_one_of(opening, before)) out_ += ' ';
  }

  /// A string or a character; an unterminated one ends with its line.
  void copy_literal(char quote) {
    copy(1);
    while (at_ < text_.size() && text_[at_] != '\n') {
      const char c = text_[at_];
      copy(c == '\\' ? 2 : 1);
      if (c == quote) return;
    }
  }

  /// What precedes a quote without a blank: the prefix of a literal, or a number so far.
  std::string_view word_before() const {
    std::size_t start = at_;
    while (start > 0 && (is_of_word(text_[start - 1]) || text_[start - 1] == '\'')) --start;
    return text_.substr(start, at_ - start);
  }

  bool separates_digits() const {
    const std::string_view word = word_before();
    return !word.empty() && is_digit(word.front());
  }

  bool begins_raw_string() const {
    constexpr std::array<std::string_view, 5> fronts = {"R", "LR", "uR", "UR", "u8R"};
    return std::ranges::find(fronts, word_before()) != fronts.end();
  }

  /// R"mark( ... )mark"
  void copy_raw_string() {
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return copy_literal('"');
    const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const std::size_t end = text_.find(close, open);
    copy(end == std::string_view::npos ? text_.size() : end + close.size() - at_);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t line_ = 0;  ///< where the last line of `out_` begins
};

}  // namespace

std::string without_comments(std::string_view text) {
  return Stripper(text).run();
}

}  // namespace regard
