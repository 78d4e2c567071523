#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/forever.h"
#include "device/cpu.h"

namespace regard::cpu {
namespace {

/// The words of the first line whose name is one of `names`: the first processor speaks for all.
std::vector<std::string> words_of(std::initializer_list<std::string_view> names) {
  std::vector<std::string> words;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const bool named =
        std::ranges::any_of(names, [&](std::string_view name) { return line.starts_with(name); });
    const std::size_t colon = line.find(':');
    if (!named || colon == std::string::npos) continue;
    std::istringstream rest(line.substr(colon + 1));
    for (std::string word; rest >> word;) words.push_back(word);
    break;
  }
  return words;
}

std::vector<std::string> read_flags() {
  return words_of({"flags", "Features"});  // x86, Arm
}

std::string read_vendor() {
  const std::vector<std::string> words = words_of({"vendor_id"});
  return words.empty() ? "" : words.front();
}

}  // namespace

std::span<const std::string> cpu_flags() {
  return forever<read_flags>();
}

std::string_view cpu_vendor() {
  return forever<read_vendor>();
}

}  // namespace regard::cpu
