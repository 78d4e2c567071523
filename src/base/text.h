// Text: letters, parts and characters; and foreign words (arguments, paths, contents of files) in our
// sentences, which a terminal must only display.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regard {

/// Lower case for ASCII capitals, whatever the locale.
inline char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lower(std::string_view text);

/// "a,b" as a, b: the parts of `text` between any of `separators`, including empty ones; views into `text`.
std::vector<std::string_view> split(std::string_view text, std::string_view separators);

/// A character of a text that may not be UTF-8.
struct Utf8Character {
  std::size_t bytes;   ///< at least 1
  std::uint32_t code;  ///< 0 where it is not a character
  bool right;          ///< else the bytes are the beginning of an invalid sequence
};

/// The first character of a non-empty text: in its shortest encoding, and not half of a UTF-16 pair.
Utf8Character first_character(std::string_view text);

enum class Newlines : bool { escaped, kept };

/// The text with escapes (\n, \x1b, \u202e) in place of control characters, direction marks, and bytes that
/// are not UTF-8. Idempotent. With newlines kept, as in compiler output, tabs are kept as well.
std::string printable(std::string_view text, Newlines newlines = Newlines::escaped);

/// Of a text longer than `most` bytes, both ends, cut at whole characters, and "[...]" between them.
std::string shortened(std::string text, std::size_t most);

/// A foreign word in a sentence: 'word', printable and of a length that keeps the sentence readable.
std::string in_quotes(std::string_view word);

/// The URL, which may contain passwords, for messages and reports: printable, with *** in place of user name
/// and password and of what follows the path. Accepts any text, as invalid URLs are printed as well.
std::string without_secrets(std::string_view url);

}  // namespace regard
