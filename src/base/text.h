// Text: letters, parts and characters; and the words of others (arguments, paths, what files say) inside our
// sentences, which a terminal shows and does nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regard {

/// Small letters for capital ones, in ASCII and whatever the locale.
inline char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower(std::string_view text);

/// "a,b" as a, b: the parts of `text` between any of `separators`, empty ones among them; views into `text`.
std::vector<std::string_view> split(std::string_view text, std::string_view separators);

/// A character of a text that need not be UTF-8, as that of others.
struct Utf8Character {
  std::size_t bytes;   ///< at least 1
  std::uint32_t code;  ///< 0 of what is no character
  bool right;          ///< else the bytes are the beginning of one that nothing right can follow
};

/// The first character of a text that is not empty: in the shortest form that there is, and no half of a
/// UTF-16 pair.
Utf8Character first_character(std::string_view text);

enum class Newlines : bool { escaped, kept };

/// The text with escapes (\n, \x1b, \u202e) in place of control characters, of what turns the direction of
/// writing, and of bytes that are no UTF-8. Once more, it changes nothing. With its newlines kept, as what a
/// compiler said has them, tabs are kept too.
std::string printable(std::string_view text, Newlines newlines = Newlines::escaped);

/// Of a text longer than `most` bytes both ends, at whole characters, and "[...]" between them.
std::string shortened(std::string text, std::size_t most);

/// A word of somebody else in a sentence: 'word', printable and of a length that leaves the sentence
/// readable.
std::string in_quotes(std::string_view word);

/// The URL, which may contain passwords, for messages and reports: printable, with *** in place of user name
/// and password and of what follows the path. Accepts any text, as invalid URLs are printed too.
std::string without_secrets(std::string_view url);

}  // namespace regard
