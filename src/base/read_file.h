// Reading a small file whole.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace regard {

/// What stands in a regular file of at most `most` bytes. Never waits: a FIFO or a device is refused. The
/// error is the end of a sentence ("it is a folder"); it is `no_memory` where the next try may succeed.
Result<std::string> read_file(const std::string& path, std::size_t most);

}  // namespace regard
