// Writing that fails with an error and never with a signal.
#pragma once

#include <cstddef>
#include <span>

namespace regard {

/// Writes all bytes; false with errno set otherwise. Where a file-size limit (ulimit -f) is hit the kernel
/// sends SIGXFSZ, and where a reader has gone SIGPIPE, which would end the host program: here those are the
/// errors EFBIG and EPIPE and nothing more.
bool write_all(int file, std::span<const std::byte> bytes);

}  // namespace regard
