// A look at a shared object before it is opened.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace regard {

/// Why the loader of libc must not be given these bytes; null when nothing is wrong. It maps what the headers
/// say and dies on a page fault where the file is shorter.
const char* shared_object_defect(std::span<const std::byte> bytes);

/// The same of a file; null also when it cannot be opened, which the loader says itself.
const char* shared_object_defect(const std::string& path);

}  // namespace regard
