// The safetensors format: pure functions over bytes, strict, no file access.
#pragma once

#include <string>

#include "arrays/element.h"

namespace regard {

struct NamedArray {
  std::string name;
  ArrayView array;
  std::string unreadable;  ///< why only its bytes are available; empty for most
};

/// The first bytes of a file, which say how long its header is.
inline constexpr std::size_t safetensors_length_bytes = 8;
/// How much of a file read_safetensors looks at: those bytes and the header; it returns the rest as views.
std::size_t safetensors_beginning(std::span<const std::byte> file);

/// The arrays in `file`, in the order of their data. As the format requires, they fill the file without
/// holes, overlaps or duplicate names; anything else is an error.
Result<std::vector<NamedArray>> read_safetensors(std::span<const std::byte> file);

/// Everything before the data, which follows in the order of `arrays` (their `bytes` are not read).
std::string safetensors_header(std::span<const NamedArray> arrays);

}  // namespace regard
