// Small letters for capital ones, in ASCII and whatever the locale.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace regard {

inline char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

inline std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return lower(c); });
  return result;
}

}  // namespace regard
