// A look at a shared object before it is opened.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace regard {

/// Why the loader of libc must not be given these bytes; null when nothing is wrong. It maps what the headers
/// say and dies on a page fault where the file is shorter.
const char* shared_object_defect(std::span<const std::byte> bytes);

/// The same of a file. Error: "it is not a file", which the loader would wait for, and the like.
Status check_shared_object(const std::string& path);

}  // namespace regard
