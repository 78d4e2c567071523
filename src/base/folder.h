// Folders. Own functions over the C library's, as the C++ library's allocate where they must not throw, and
// end the process where memory runs out.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace regard {

/// What is in a folder, without "." and "..". Error: "it cannot be read: ...".
Result<std::vector<std::string>> read_names(const std::string& folder);
/// The same; nothing where it cannot be read.
std::vector<std::string> names_in(const std::string& folder);

/// Makes a folder, and those above it, where they are not there. 0, or errno.
int make_folders(const std::string& folder);

/// Removes a file, or a folder with all that is in it, as far as that can be removed. Follows no links.
void remove_all(const char* path) noexcept;

}  // namespace regard
