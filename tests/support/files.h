// Files as strings, and damage that a reader must survive.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>

namespace regard {

inline std::span<const std::byte> bytes(const std::string& file) {
  return std::as_bytes(std::span(file));
}

/// Calls read(file) with every prefix of `file`, and with bytes of it changed at random. It must return, with
/// any answer; the sanitizer build catches reads outside the file.
template <class Read>
void survive(const std::string& file, const Read& read) {
  for (std::size_t length = 0; length < file.size(); ++length) read(std::string(file, 0, length));
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string changed = file;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      changed[random() % changed.size()] =
          static_cast<char>(random() % 2 != 0 ? random() : "0,:{}[]()\"'9"[random() % 12]);
    }
    read(changed);
  }
}

}  // namespace regard
