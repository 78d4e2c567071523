// Text of others, which need not be UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace regard {

struct Utf8Character {
  std::size_t bytes;   ///< at least 1
  std::uint32_t code;  ///< 0 of what is no character
  bool right;          ///< else the bytes are the beginning of one that nothing right can follow
};

/// The first character of a text that is not empty: in the shortest form that there is, and no half of a
/// UTF-16 pair.
Utf8Character first_character(std::string_view text);

}  // namespace regard
