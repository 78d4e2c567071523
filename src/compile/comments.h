// What a compiler does not read of a source: a kernel's identity is the hash of its text, and a sentence put
// right must not make every kernel anew.
#pragma once

#include <string>
#include <string_view>

namespace regard {

/// C++ text without comments, blanks at the ends of lines, and blank lines; the rest stays line by line. All
/// that stands in a literal stays as it is.
std::string without_comments(std::string_view text);

}  // namespace regard
