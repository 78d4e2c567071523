// How a test program starts itself again. On a machine with another processor the system cannot run it by
// itself: the variable TEST_EMULATOR has the words that go before its path, "qemu-aarch64 -L
// /some/root".
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace regard::test {

inline std::vector<std::string> own_program() {
  const char* const emulator = std::getenv("TEST_EMULATOR");
  std::istringstream before(emulator == nullptr ? "" : emulator);
  std::vector<std::string> words;
  for (std::string word; before >> word;) words.push_back(word);
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  return words;
}

/// Returns only if it fails.
inline void become_own_program(const std::string& argument) {
  std::vector<std::string> words = own_program();
  words.push_back(argument);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
}

}  // namespace regard::test
