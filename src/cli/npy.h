// NumPy's .npy format, version 1 to 3: pure functions over bytes, strict, no file access.
#pragma once

#include <string>

#include "arrays/element.h"

namespace regard::cli {

/// The most that read_npy looks at; it returns the rest as a view.
inline constexpr std::size_t npy_beginning = 12 + 65536;

/// The array in `file`, as a view of its bytes. Anything but one little-endian C-order array that fills the
/// file exactly is an error.
Result<ArrayView> read_npy(std::span<const std::byte> file);

/// Everything before the data. bf16 and fp8 are written as unsigned integers of their size.
std::string npy_header(Element, std::span<const std::int64_t> shape);

}  // namespace regard::cli
