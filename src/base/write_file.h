// Writing that fails with an error and never with a signal.
#pragma once

#include <cstddef>
#include <span>

namespace regard {

/// Writes all bytes; false with errno set otherwise. Where a file-size limit (ulimit -f) is hit the kernel
/// sends SIGXFSZ, which would end the host program: here that is the error EFBIG and nothing more.
bool write_all(int file, std::span<const std::byte> bytes);

}  // namespace regard
