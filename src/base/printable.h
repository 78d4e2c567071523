// The words of others (arguments, paths, what files say) inside our sentences: a terminal shows them and does
// nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace regard {

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

}  // namespace regard
