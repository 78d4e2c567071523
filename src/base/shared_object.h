// Checks a shared object before it is opened.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace regard {

/// Why libc's loader must not be given these bytes; null when nothing is wrong. The loader maps what the
/// headers say and dies on a page fault where the file is shorter.
const char* shared_object_defect(std::span<const std::byte> bytes);

/// The same for a file. Error: "it is not a file", which the loader would block on, and the like.
Status check_shared_object(const std::string& path);

}  // namespace regard
