// Which failures pass: those for lack of memory, files, processes or disk.
#pragma once

#include <string_view>

#include "base/result.h"

namespace regard {

/// Whether the system said so with this errno.
bool is_scarce(int error);

/// Whether the loader, a compiler or another program said so in its words.
bool says_scarce(std::string_view text);

/// `no_memory` where what failed with this errno may succeed at the next try, else `otherwise`.
inline ErrorKind kind_of(int error, ErrorKind otherwise) {
  return is_scarce(error) ? ErrorKind::no_memory : otherwise;
}

}  // namespace regard
