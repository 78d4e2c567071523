// Removes what a compiler ignores in a source: a kernel's identity is the hash of its text, and a corrected
// comment must not rebuild every kernel.
#pragma once

#include <string>
#include <string_view>

namespace regard {

/// C++ text without comments, trailing blanks and blank lines; the remaining lines are unchanged, and so are
/// literals.
std::string without_comments(std::string_view text);

}  // namespace regard
